// One step through a model.
#ifndef CHIMERE_MODEL_FORWARD_PASS_H_
#define CHIMERE_MODEL_FORWARD_PASS_H_

#include <functional>

#include "kernels/api.h"
#include "model/model_spec.h"
#include "model/model_weights.h"
#include "model/step_batch.h"
#include "model/step_buffers.h"

namespace chimere::model {

/// Issues the ops of one step: x [rows, n_embd] is the residual stream, h [rows, n_embd] the output
/// of the last norm.
class ForwardPass {
 public:
  /// `update_draft_kv`: also write the MTP head's KV. `expert_use`: nullptr unless decode rows may
  /// skip experts. `interleave`: called after every mixer and every network, if not empty.
  ForwardPass(kernels::Ops& ops, const ModelSpec& model, const ModelWeights& weights,
              const StepBatch& step, const StepBuffers& buffers, bool update_draft_kv,
              kernels::ExpertUse* expert_use, const std::function<void()>& interleave)
      : ops_(ops),
        model_(model),
        weights_(weights),
        step_(step),
        batch_(step.view()),
        buffers_(buffers),
        update_draft_kv_(update_draft_kv),
        expert_use_(expert_use),
        interleave_(interleave) {}

  void run();
  /// In place of run() for the context rows of a block drafter: h = rms_norm(fuse · context), of
  /// which every layer appends keys and values. `vectors`: the context is the step's vectors, not
  /// what StepBuffers::context contains already.
  void append_context(bool vectors);

  /// The results that run() writes: all logits of some rows, the largest ones of the others.
  kernels::StepOutputs outputs() const;

 private:
  /// Calls `visit` with every mixer and its input, each with memory of its own.
  template <class Visit>
  void for_each_context_mixer(const Visit& visit);
  void embed();  ///< x = embedding rows of the tokens
  /// y = norm(x), for rows() of the step.
  kernels::Operand normed(const Norm& norm, MatrixView x, MatrixView y);
  void norm(const Norm& norm);  ///< h = norm(x), which becomes the operand h_
  /// x = norm(x), which becomes the operand h_ of what reads the residual stream.
  void post_norm(const Norm& norm);
  SubLayerRows sub_layer_rows(float scale);          ///< with the operand h_
  void add(const SubLayer& sub_layer, float scale);  ///< x += scale * the sub-layer's output for h
  /// Where the layer's output is wanted, or nullptr.
  const MatrixView* tap_of(size_t layer) const;
  /// Continues with only the rows whose logits are requested; returns false if there are none. Call
  /// it after the last mixer, when all states are complete and rows no longer interact. If the step
  /// updates the MTP head's KV, all rows continue, because the MTP head reads their hidden states;
  /// also as long as later layers are tapped.
  bool keep_wanted_rows();
  /// logits = output · rms_norm(x), and the MTP head's part of the state. For embedding models only
  /// rms_norm(x).
  void head();
  /// Logits of the requested rows, from the hidden states that the output head reads.
  void project(const kernels::Operand& hidden);
  /// For rows with `top`: the largest logits, the selected ones, log-sum-exp statistics and the
  /// chosen tokens.
  void find_top();
  const RowBuffers& rows() const { return only_wanted_ ? buffers_.wanted : buffers_.all; }
  kernels::StepRows step_rows() const {
    return only_wanted_ ? kernels::StepRows::kWanted : kernels::StepRows::kAll;
  }

  kernels::Ops& ops_;
  const ModelSpec& model_;
  const ModelWeights& weights_;
  const StepBatch& step_;
  kernels::BatchView batch_;
  const StepBuffers& buffers_;
  bool update_draft_kv_;
  kernels::ExpertUse* expert_use_;
  const std::function<void()>& interleave_;
  bool only_wanted_ = false;
  kernels::Operand h_ = ConstMatrixView();
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_FORWARD_PASS_H_
