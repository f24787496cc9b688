// What hybrid models share, and the transformers beside them: weights, states and steps. How a step
// goes through the layers is the architecture's own (arch/), written in the calls of HybridPass.
#ifndef CHIMERE_MODEL_HYBRID_MODEL_H_
#define CHIMERE_MODEL_HYBRID_MODEL_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "model/activations.h"
#include "model/hparams.h"
#include "model/layers/feed_forward.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/self_attention.h"
#include "model/model.h"
#include "model/mtp.h"
#include "model/step_batch.h"

namespace chimere::model {

struct HybridLayer {
  const float* mixer_norm = nullptr;  ///< [n_embd]
  std::variant<GatedDeltaNet, SelfAttention> mixer;
  const float* ffn_norm = nullptr;  ///< [n_embd]
  FeedForward ffn;
};

struct HybridWeights {
  WeightView embedding;  ///< [n_vocab, n_embd]
  std::vector<HybridLayer> layers;
  const float* output_norm = nullptr;  ///< [n_embd]
  WeightView output;                   ///< [n_vocab, n_embd]; of embedding models nothing
  std::optional<MtpBlock> mtp;         ///< if it is to be run
  int64_t active_bytes = 0;
  std::vector<std::unique_ptr<uint8_t[]>> copies;  ///< of tensors that are not used as they lie
};

/// The rows of one step on their way through the layers: x [rows, n_embd] is the residual stream,
/// h [rows, n_embd] what a norm made of it.
class HybridPass {
 public:
  HybridPass(kernels::Ops& ops, const Hparams& hparams, const HybridWeights& weights,
             const StepBatch& step, const StepBuffers& buffers, bool update_draft_kv,
             const std::function<void()>& interleave)
      : ops_(ops),
        hparams_(hparams),
        weights_(weights),
        step_(step),
        batch_(step.view()),
        buffers_(buffers),
        update_draft_kv_(update_draft_kv),
        interleave_(interleave) {}

  std::span<const HybridLayer> layers() const { return weights_.layers; }
  bool is_last(const HybridLayer& layer) const { return &layer == &weights_.layers.back(); }

  void embed();                        ///< x = the tokens' rows of the embedding table
  void norm(const float* weight);      ///< h = rms_norm(x)
  void mix(const HybridLayer& layer);  ///< x += delta net or attention of h, over positions
  void feed_forward(const HybridLayer& layer);  ///< x += experts or dense network of h, row by row
  /// Continues with the rows whose logits are wanted; false if there are none. For behind the last
  /// mixer, where rows no longer meet and all states are complete. Where drafts are fed, all rows
  /// continue: the MTP head wants what comes out of them.
  bool keep_wanted_rows();
  /// logits = output · rms_norm(x), and the drafts' part of the state; of embedding models just
  /// rms_norm(x).
  void head();

  /// What head() writes: all logits of some rows, the largest of the others.
  kernels::StepOutputs outputs() const;

 private:
  /// Logits of the wanted rows from what the head sees of them.
  void project(const MatrixView& hidden);
  /// Of the rows of which no more is wanted: the largest logits, listed ones, sums, and what is
  /// chosen among them.
  void find_top();
  const Activations& rows() const { return only_wanted_ ? buffers_.wanted : buffers_.all; }

  kernels::Ops& ops_;
  const Hparams& hparams_;
  const HybridWeights& weights_;
  const StepBatch& step_;
  kernels::BatchView batch_;
  const StepBuffers& buffers_;
  bool update_draft_kv_;
  const std::function<void()>& interleave_;
  bool only_wanted_ = false;
};

using HybridForward = void (*)(HybridPass& pass);

/// As load_model(), for files of one architecture. Blocks that predict further tokens are checked
/// even where they are not run, so that a damaged file is found out at once.
Result<std::unique_ptr<Model>> load_hybrid_model(const gguf::Reader& file, kernels::Ops& ops,
                                                 const ModelOptions& options,
                                                 const HybridKind& kind, HybridForward forward);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HYBRID_MODEL_H_
