// Which of the two dot products of docs/numerics.md a weight type takes.
#ifndef CHIMERE_KERNELS_DOT_RULE_H_
#define CHIMERE_KERNELS_DOT_RULE_H_

#include "tensor/dtype.h"

namespace chimere::kernels {

/// Elements of an activation block (rule 3).
inline constexpr int kActivationBlock = 32;
/// Partial sums of a dot product (rules 2 and 4).
inline constexpr int kPartials = 16;

/// Elements that share a weight scale in the integer dot product (rule 4), or 0 for the types that
/// take the float dot product (rule 2) with activations that are not rounded.
constexpr int scale_group(DType t) {
  switch (t) {
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kIQ3_S:
      return 32;
    case DType::kQ6_K:
      return 16;
    default:
      return 0;
  }
}

constexpr bool takes_integer_dot(DType t) { return scale_group(t) != 0; }
constexpr bool has_minimum(DType t) { return t == DType::kQ4_K || t == DType::kQ5_K; }

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_DOT_RULE_H_
