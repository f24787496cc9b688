// Routed experts (mixture of experts) and, in most models, a shared expert, with its own gate or
// without.
#ifndef CHIMERE_MODEL_LAYERS_EXPERTS_H_
#define CHIMERE_MODEL_LAYERS_EXPERTS_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class Experts final : public SubLayer {
 public:
  Status place(Placement& to) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override;
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct ExpertsSpec;
  /// Each [rows, ...].
  struct Buffers {
    MatrixView router;  ///< n_experts
    kernels::Routing routing;
    MatrixView shared_gate;  ///< 1
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;
  bool has_shared() const { return shared_.up.n_out > 0; }
  bool has_shared_gate() const { return shared_gate_.n_out > 0; }

  int n_used_ = 0;
  kernels::RoutingSpec routing_;
  kernels::Activation activation_ = kernels::Activation::kSilu;
  float top_p_ = 1;                              ///< ModelOptions::expert_top_p
  WeightView router_;                            ///< [n_experts, n_embd]
  const float* router_bias_ = nullptr;           ///< [n_experts]; nullptr: none
  std::vector<kernels::ExpertWeights> experts_;  ///< [n_experts], as in the file
  WeightView shared_gate_;                       ///< [1, n_embd], or empty
  kernels::ExpertWeights shared_;                ///< as in the file; empty: there is none
  std::unique_ptr<kernels::PlacedExperts> placed_;
};

enum class SharedExpert {
  kNone,
  kGated,    ///< its output is multiplied with a sigmoid of a product with the row
  kUngated,  ///< its output is added as it is
};

struct ExpertsSpec {
  int n_experts = 0;
  int n_used = 0;       ///< experts a token is sent to
  int n_ff = 0;         ///< inner width of a routed expert
  int n_ff_shared = 0;  ///< inner width of the shared expert
  SharedExpert shared = SharedExpert::kNone;
  bool gated = true;  ///< each expert has a gated unit
  kernels::Activation activation = kernels::Activation::kSilu;
  kernels::RoutingSpec routing;  ///< without bias, which bind() takes from the file if it has one

  /// Binds "ffn_gate_inp" (the router), "exp_probs_b.bias" (of the selection, if present) and
  /// "ffn_*_exps", where gate and up may be one tensor, "ffn_gate_up_exps", or in files from before
  /// these existed "ffn_*.E" for each expert E; the biases of router and experts if the file has
  /// them; for the shared expert "ffn_gate_inp_shexp" (its gate) and "ffn_*_shexp".
  std::unique_ptr<Experts> bind(const SubLayerBinding& to) const;

 private:
  void bind_biases(const SubLayerBinding& to, Experts& moe) const;
};

/// Reads "expert_*" for one block. `routing`: the architecture's, where the file has no keys of it.
/// Errors: those of Keys; kInvalidData (keys that contradict each other), kUnsupported (a routing
/// that is not implemented).
Result<ExpertsSpec> read_experts(const Keys& keys, int block, SharedExpert shared,
                                 const kernels::RoutingSpec& routing = {});

/// The same for architectures whose experts each have the width "feed_forward_length", unless
/// "expert_feed_forward_length" says otherwise (Mixtral and what came after it).
Result<ExpertsSpec> read_wide_experts(const Keys& keys, int block, SharedExpert shared,
                                      const kernels::RoutingSpec& routing = {});

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_EXPERTS_H_
