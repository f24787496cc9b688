// What hybrid models and plain transformers share: weights, states and steps. How a step passes
// through the layers is defined per architecture (arch/), in calls to HybridPass.
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
  WeightView output;                   ///< [n_vocab, n_embd]; empty in embedding models
  std::optional<MtpBlock> mtp;         ///< if it is run
  int64_t active_bytes = 0;
  std::vector<std::unique_ptr<uint8_t[]>> copies;  ///< of tensors whose layout in the file differs
};

/// One step through the layers: x [rows, n_embd] is the residual stream, h [rows, n_embd] the
/// output of the last norm.
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

  void embed();                        ///< x = embedding rows of the tokens
  void norm(const float* weight);      ///< h = rms_norm(x)
  void mix(const HybridLayer& layer);  ///< x += delta net or attention of h, across positions
  void feed_forward(const HybridLayer& layer);  ///< x += experts or dense network of h, per row
  /// Continues with only the rows whose logits are requested; returns false if there are none. Call
  /// it after the last mixer, when all states are complete and rows no longer interact. If the step
  /// updates the MTP head's KV, all rows continue, because the MTP head reads their hidden states.
  bool keep_wanted_rows();
  /// logits = output · rms_norm(x), and the MTP head's part of the state. For embedding models only
  /// rms_norm(x).
  void head();

  /// The results that head() writes: all logits of some rows, the largest ones of the others.
  kernels::StepOutputs outputs() const;

 private:
  /// Logits of the requested rows, from the hidden states that the output head reads.
  void project(const MatrixView& hidden);
  /// For rows with `top`: the largest logits, the selected ones, log-sum-exp statistics and the
  /// chosen tokens.
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

/// load_model() for one architecture. MTP heads are checked even if they are not run, so that a
/// damaged file is detected at load time.
Result<std::unique_ptr<Model>> load_hybrid_model(const gguf::Reader& file, kernels::Ops& ops,
                                                 const ModelOptions& options,
                                                 const HybridKind& kind, HybridForward forward);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HYBRID_MODEL_H_
