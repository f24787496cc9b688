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
#include "model/adapter.h"
#include "model/block_draft.h"
#include "model/model_options.h"
#include "model/pooling.h"
#include "model/step.h"
#include "state/state_store.h"
#include "tensor/memory.h"

namespace chimere::model {

class RankHead;

/// Chooses the draft for sequence `i` of Model::draft() from the logits of the first tokens of the
/// vocabulary. Returns a token id, or -1 to end this sequence's chain.
using ChooseDraft = std::function<int32_t(size_t i, std::span<const float> logits)>;

/// Not thread-safe: one forward() at a time (except inside StepPlan::interleave), and none while
/// another thread uses its states.
class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& architecture() const = 0;
  virtual int64_t n_vocab() const = 0;
  virtual int64_t n_embd() const = 0;
  /// Those that StepPlan::taps may name; 0: none.
  virtual int32_t n_layers() const { return 0; }
  /// Values per requested row of a step: a logit for each token, or the final hidden state of an
  /// embedding model.
  virtual int64_t n_outputs() const { return n_vocab(); }
  /// How the file says that hidden states are pooled.
  virtual Pooling pooling() const { return Pooling::kNone; }
  /// Its outputs are hidden states: this is an embedding model or a reranker.
  virtual bool embeds() const { return false; }
  /// Every row of a text sees all others, so that a text must be complete in one step.
  virtual bool encoder() const { return false; }
  /// A sentence about tensors of the file that the model does not use; empty: none.
  virtual const std::string& left_out() const {
    static const std::string none;
    return none;
  }
  /// The head of a model whose pooling is kRank; else nullptr.
  virtual const RankHead* rank_head() const { return nullptr; }
  /// SequenceRows::second_segment is supported.
  virtual bool has_segments() const { return false; }
  virtual int64_t context_length() const = 0;            ///< in tokens, as trained
  virtual int64_t max_step_rows() const { return 512; }  ///< larger plans are refused
  /// What it reads of another model and proposes to it; nullptr: it is no block drafter.
  virtual const BlockDraft* block_draft() const { return nullptr; }
  /// Weight bytes that a decode step of one sequence reads, for the bytes-moved model: each active
  /// weight once, one row of the embedding table, the routed experts that one token uses.
  virtual int64_t active_weight_bytes() const = 0;

  /// Experts used by decode rows since the model was loaded, if ModelOptions::expert_top_p is below
  /// 1. Errors: kIo.
  virtual Result<kernels::ExpertUse> expert_use() { return kernels::ExpertUse{}; }

  /// Bytes of activations and logits of a step; 0 if unknown.
  virtual int64_t step_bytes(int64_t /*rows*/, int64_t /*wanted*/) const { return 0; }

  /// Bytes of the ops' scratch memory for a step on a GPU; 0 if unknown.
  virtual int64_t gpu_scratch_bytes(int64_t /*rows*/) const { return 0; }

  /// Of step_bytes(), what the MTP head's own buffers take.
  virtual int64_t draft_step_bytes(int64_t /*rows*/) const { return 0; }

  /// The memory of the model's device, where StepResult::taps are.
  virtual Memory& memory() { return host_memory(); }

  /// The pools that hold the states of this model's sequences.
  virtual state::StateStore& states() = 0;

  /// What adapters may change.
  virtual std::span<const AdapterTarget> adapter_targets() const { return {}; }
  /// Makes an adapter for these targets available to SequenceRows::adapters, whatever made it: a
  /// file (read_adapter()) or a program. Returns its number. No step may be in flight. Errors:
  /// kInvalidArgument (too many adapters, or of other targets), kUnsupported (an adapter of experts
  /// that this back end cannot apply), kOutOfMemory, kIo.
  virtual Result<int32_t> add_adapter(Adapter adapter);
  /// Whether add_adapter() has returned this number and drop_adapter() has not freed it. Other
  /// threads may call it while none adds or drops adapters.
  virtual bool has_adapter(int32_t /*number*/) const { return false; }
  /// Frees it; no sequence may use it any more.
  virtual void drop_adapter(int32_t /*number*/) {}

  /// Advances every sequence of the plan by its rows. A step of context rows (block_draft.h) has no
  /// results, and need not be complete when this returns: the next forward() reports if its device
  /// failed. Errors: kInvalidArgument (an invalid plan),
  /// kOutOfMemory (states), kIo (a file was truncated, rewritten or could not be read). On an error
  /// no state changes, except if a file changed during the step: discard the plan's sequences then.
  virtual Result<StepResult> forward(const StepPlan& plan) = 0;

  /// Whether launch() takes rows with async_token: the next step can start before the host knows
  /// this step's tokens.
  virtual bool supports_overlap() const { return false; }
  /// Waits for a step of context rows, which forward() only queues. Errors: those of the step.
  virtual Status finish_context() { return {}; }
  /// Steps so far that took longer than others of their shape will (Ops::first_steps()).
  virtual int64_t first_steps() const { return 0; }
  /// The two halves of forward(), for plans in which each sequence that requests logits has a
  /// choice, if supports_overlap(). Sequences advance in launch(). A second step may be launched
  /// before the first wait(), and nothing else may be called in between; wait() returns the oldest
  /// step's result. Errors of launch(): those of forward(), and nothing has changed; of wait():
  /// kIo: discard the sequences of both steps.
  virtual Status launch(const StepPlan& plan);
  virtual Result<StepResult> wait();

  /// Copies all logits of row `row` of the last forward()'s StepResult::top to `out` [n_outputs];
  /// those of tokens that the sequence selected are -infinity. Several threads may call it until
  /// the next forward() or draft(). Errors: kInvalidArgument (no such row, `out` has another size),
  /// kIo.
  virtual Status read_logits(int64_t row, std::span<float> out);

  /// Copies rows of all StepResult::taps of the last forward() to the host: from `first_row` on, as
  /// many as fit in `out` [n, taps * n_embd()]. Errors: kInvalidArgument (no such rows), kIo.
  virtual Status read_taps(int64_t first_row, std::span<float> out);

  /// Whether forward() calls StepPlan::interleave, so that decode steps can run inside a long step.
  virtual bool can_interleave() const { return false; }

  /// Whether logits are computed on a GPU, where SequenceRows::top avoids copying all of them.
  virtual bool logits_on_gpu() const { return false; }

  /// Whether the MTP head was loaded; draft() fails otherwise.
  virtual bool has_drafts() const { return false; }
  /// Drafts up to `depth` tokens after each sequence's next token: the last hidden state and the
  /// next token go through the MTP head (DeepSeek-V3, arXiv:2412.19437, section 2.2), from the
  /// second draft on its own hidden state and draft. Reads the states and changes none. `choose` is
  /// called for each sequence, in order, at each depth. Errors: kUnsupported (no has_drafts()),
  /// kInvalidArgument (a state with pending rows or given twice, a token outside the vocabulary,
  /// more sequences than max_step_rows), kOutOfMemory, kIo.
  virtual Status draft(std::span<const DraftStart> starts, int depth, const ChooseDraft& choose);
};

/// Whether load_model() supports the file's general.architecture. Errors: kUnsupported (lists the
/// supported ones), kInvalidData (the file names none).
Status check_architecture(const gguf::Reader& file);

/// Whether the file's model is an encoder (Model::encoder()). Errors: those of load_model() that
/// need no tensors.
Result<bool> is_encoder(const gguf::Reader& file);

/// Whether the file says that it is a block drafter; see load_block_drafter().
bool is_block_drafter(const gguf::Reader& file);

/// Whether a block drafter's hyper-parameters fit its `target`; reads no tensors. Errors: those of
/// load_block_drafter().
Status check_block_drafter(const gguf::Reader& file, const gguf::Reader& target);

/// Loads the model according to general.architecture. The reader (which owns the mapped file) and
/// ops must outlive the model. Errors: those of check_architecture(), kUnsupported (a variant that
/// is not implemented), kInvalidData (missing or misshapen tensors and keys), kInvalidArgument,
/// kOutOfMemory.
Result<std::unique_ptr<Model>> load_model(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options);

/// The same for a block drafter, which uses the embeddings and the output matrix of its `target`,
/// the file of the model that it drafts for. Its logits are those of the first tokens of the
/// vocabulary (ModelOptions::draft_tokens). The target's reader must outlive the model. Errors:
/// those of load_model(); kUnsupported (no block drafter, or one for models of other sizes).
Result<std::unique_ptr<Model>> load_block_drafter(const gguf::Reader& file,
                                                  const gguf::Reader& target, kernels::Ops& ops,
                                                  const ModelOptions& options);

class Keys;
struct ModelSpec;
/// Reads a model's description from a file's hyper-parameters (model/model_spec.h).
using ReadModelSpec = Result<ModelSpec> (*)(const Keys& keys);

/// load_model() for an architecture that is described by `read`, whatever its name.
Result<std::unique_ptr<Model>> load_model_as(ReadModelSpec read, const gguf::Reader& file,
                                             kernels::Ops& ops, const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_H_
