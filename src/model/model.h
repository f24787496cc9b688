// A loaded model: weights on a device and a forward pass.
#ifndef CHIMERE_MODEL_MODEL_H_
#define CHIMERE_MODEL_MODEL_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/hparams.h"
#include "model/step.h"
#include "state/state_store.h"

namespace chimere::model {

/// Limits cost address space, not memory: pages, states and activations take memory when used.
struct ModelOptions {
  /// KV positions over all sequences together; every sequence takes whole pages of 64.
  int64_t max_tokens = 4096;
  /// Recurrent states over all sequences, checkpoints and revocable rows together.
  int64_t max_states = 64;
  /// Most memory of pages and states together; 0: what the two numbers above amount to.
  int64_t max_state_bytes = 0;
  int max_step_rows = 512;  ///< rows of one step; larger plans are refused
  DType cache_k = DType::kF16;
  DType cache_v = DType::kF16;
  /// Run the block that predicts further tokens, where the file has one: Model::draft(). Its keys
  /// and values, and the last hidden state, are then part of every sequence's state.
  bool drafts = false;
  /// That draft() chooses from the first so many tokens of the vocabulary; 0: as many as suit it.
  int64_t draft_tokens = 0;
  /// Above 0, at most 1: below 1 each decode row uses only as many of its routed experts, of the
  /// largest weight first, as are needed for their weights to reach this sum. Rows of chunks use
  /// all. Without experts it means nothing. Part of the key of every stored state.
  float expert_top_p = 1;
};

/// Chooses a draft for sequence `i` of Model::draft() from the logits of the first tokens of the
/// vocabulary; -1 ends this sequence's chain.
using ChooseDraft = std::function<int32_t(size_t i, std::span<const float> logits)>;

/// Not thread-safe: one forward() at a time (but for StepPlan::interrupt), and none while its
/// states are used elsewhere.
class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& architecture() const = 0;
  virtual int64_t n_vocab() const = 0;
  /// Values that a step gives for each wanted row: a logit for each token, or, of an embedding
  /// model, the final hidden state.
  virtual int64_t n_outputs() const { return n_vocab(); }
  /// Other than kNone: an embedding model.
  virtual Pooling pooling() const { return Pooling::kNone; }
  virtual int64_t context_length() const = 0;  ///< trained
  /// Weight bytes a decode step of one sequence reads (each active weight once; of the embedding
  /// table one row, of the routed experts those that a token uses), for the bytes model.
  virtual int64_t active_weight_bytes() const = 0;

  /// What decode rows used since the model was loaded, where ModelOptions::expert_top_p is below 1.
  /// Errors: kIo.
  virtual Result<kernels::ExpertUse> expert_use() { return kernels::ExpertUse{}; }

  /// Bytes of activations and logits of a step; 0 if the model does not say.
  virtual int64_t step_bytes(int64_t /*rows*/, int64_t /*wanted*/) const { return 0; }

  /// Bytes that the ops of a step on a GPU work in besides; 0 if the model does not say.
  virtual int64_t gpu_scratch_bytes(int64_t /*rows*/) const { return 0; }

  /// The pools that sequences of this model live in.
  virtual state::StateStore& states() = 0;

  /// Advances all sequences of the plan by their rows. Errors: kInvalidArgument (a plan that makes
  /// no sense), kOutOfMemory (states), kIo (a file was cut or rewritten, or could not be read). On
  /// an error no state changes, but for a file that was damaged during the step: then the plan's
  /// sequences are worth nothing.
  virtual Result<StepResult> forward(const StepPlan& plan) = 0;

  /// Whether launch() takes rows that are fed: the next step need not wait for the host.
  virtual bool supports_overlap() const { return false; }
  /// The two halves of forward(), for a plan whose sequences have one row and a choice each, where
  /// supports_overlap(). The sequences advance at once. A second step may be launched before the
  /// first is waited for, and nothing else in between; wait() gives the first one's result. Errors
  /// of launch(): those of forward(), and nothing has changed then; of wait(): kIo, and the
  /// sequences of both steps are worth nothing.
  virtual Status launch(const StepPlan& plan);
  virtual Result<StepResult> wait();

  /// All logits of row `row` of StepResult::top of the last forward(), but for those that its
  /// sequence listed, which are -infinity. Several threads may ask until the next forward() or
  /// draft(). Errors: kInvalidArgument (there is no such row, `out` has not n_outputs() places),
  /// kIo.
  virtual Status read_logits(int64_t row, std::span<float> out);

  /// Whether forward() calls StepPlan::interrupt: a long step can be divided.
  virtual bool can_interleave() const { return false; }

  /// Whether logits are computed on a GPU: SequenceRows::top then saves their copy.
  virtual bool logits_on_gpu() const { return false; }

  /// Whether draft() does something.
  virtual bool has_drafts() const { return false; }
  /// Predicts what follows each sequence's next token, `depth` tokens far: the hidden state behind
  /// the last row and the next token go through the MTP head (DeepSeek-V3, arXiv:
  /// 2412.19437, section 2.2), and from the second draft on its own output and draft. Reads from
  /// the states and changes none. `choose` is called for each sequence, in order, at each depth.
  /// Errors: kUnsupported without has_drafts(), kInvalidArgument (a state with pending rows, one
  /// that occurs twice, a token that does not exist, more sequences than the rows of a step),
  /// kOutOfMemory, kIo.
  virtual Status draft(std::span<const DraftStart> starts, int depth, const ChooseDraft& choose);
};

/// Whether load_model() has the file's general.architecture. Errors: kUnsupported (naming those it
/// has), kInvalidData (the file names none).
Status check_architecture(const gguf::Reader& file);

/// Chooses by general.architecture. The reader (the mapped file) and ops must outlive the model.
/// Errors: those of check_architecture(), kUnsupported (an option of the format that is not
/// implemented), kInvalidData (missing or misshapen tensors and keys), kInvalidArgument,
/// kOutOfMemory.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_H_
