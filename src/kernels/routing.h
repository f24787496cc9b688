// How a layer's router chooses experts for each row: docs/numerics.md, "route".
#ifndef CHIMERE_KERNELS_ROUTING_H_
#define CHIMERE_KERNELS_ROUTING_H_

#include <cstdint>

namespace chimere::kernels {

/// What a router's logits x are turned into before experts are selected.
enum class RouterScore : int32_t {
  kSoftmax,          ///< softmax over all experts
  kSigmoid,          ///< sigmoid of each logit (DeepSeek-V3, arXiv:2412.19437)
  kSelectedSoftmax,  ///< the logits select; the weights are the softmax over the selected ones
};

/// The routing function of a layer: each expert has a score; the n_used experts with the largest
/// sums of score and bias are selected, ties to the lower id; their weights are their scores,
/// optionally divided by their sum, times `scale`.
struct RoutingSpec {
  RouterScore score = RouterScore::kSoftmax;
  const float* bias = nullptr;  ///< [n_experts] in Ops::memory(), for the selection only; nullptr:
                                ///  none
  /// Groups of n_experts / n_groups consecutive experts, at most 32 groups. Only experts of the
  /// n_groups_used groups with the largest sums of their two largest biased scores are selected;
  /// these groups have at least n_used experts. 0 or 1: no groups.
  int n_groups = 0;
  int n_groups_used = 0;
  bool normalise = true;  ///< without effect for kSelectedSoftmax, whose weights sum to 1
  float scale = 1;        ///< of the weights

  bool has_groups() const { return n_groups > 1; }
  /// Whether experts are selected by their logits, whose order is that of their scores.
  bool selects_by_logits() const { return bias == nullptr && !has_groups(); }
  /// Whether the weights are the softmax over the selected logits.
  bool weighs_by_logits() const {
    return score == RouterScore::kSelectedSoftmax ||
           (score == RouterScore::kSoftmax && normalise && selects_by_logits());
  }
};

/// Lower bound of the sum that weights are divided by; llama.cpp has the same one.
inline constexpr float kMinWeightSum = 0x1p-14F;

/// Which experts each row uses, in rank order (the order of selection).
struct Routing {
  int n_used = 0;
  int32_t* ids = nullptr;    ///< [rows, n_used]; -1 from some rank on: skipped (keep_top_p)
  float* weights = nullptr;  ///< [rows, n_used]
};

/// Experts used by decode rows; a row counts once per expert layer.
struct ExpertUse {
  int64_t rows = 0;
  int64_t experts = 0;
};

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ROUTING_H_
