// Which of the two dot products of docs/numerics.md a weight type uses.
#ifndef CHIMERE_KERNELS_DOT_RULE_H_
#define CHIMERE_KERNELS_DOT_RULE_H_

#include <bit>
#include <cstdint>

#include "tensor/dtype.h"

namespace chimere::kernels {

/// Elements of an activation block (rule 3).
inline constexpr int kActivationBlock = 32;
/// Partial sums of a dot product (rules 2 and 4).
inline constexpr int kPartials = 16;

/// Elements that share a weight scale in the integer dot product (rule 4); 0 for types that use the
/// float dot product (rule 2), whose activations are not rounded.
constexpr int scale_group(DType t) {
  switch (t) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kMXFP4:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ3_S_UNPACKED:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kTQ1_0:
    case DType::kTQ2_0:
      return 32;
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ6_K:
    case DType::kIQ1_M:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ2_K:
    case DType::kIQ3_K:
    case DType::kIQ4_K:
    case DType::kIQ5_K:
      return 16;
    default:
      return 0;
  }
}

/// Scale d of an activation block whose largest magnitude is `amax` (rule 3): amax / 127, rounded
/// to the 11 significant bits of an f16 but without its narrow range. Forced inline: see
/// kernels/math.h.
[[gnu::always_inline]] inline float activation_scale(float amax) {
  auto bits = std::bit_cast<uint32_t>(amax / 127.0F);
  bits += 0xFFFU + ((bits >> 13) & 1U);  // round to nearest, ties to even, dropping 13 bits
  return std::bit_cast<float>(bits & ~0x1FFFU);
}

/// The types of rule 4, for code that has one kernel per type.
template <DType... kTypes>
struct DTypeList {};
using IntegerTypes =
    DTypeList<DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kMXFP4,
              DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ1_S,
              DType::kIQ1_M, DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS,
              DType::kIQ3_S, DType::kIQ4_NL, DType::kIQ4_XS, DType::kTQ1_0, DType::kTQ2_0,
              DType::kIQ2_K, DType::kIQ3_K, DType::kIQ4_K, DType::kIQ5_K>;

constexpr bool takes_integer_dot(DType t) { return scale_group(t) != 0; }
constexpr bool has_minimum(DType t) {
  return t == DType::kQ4_1 || t == DType::kQ5_1 || t == DType::kQ2_K || t == DType::kQ4_K ||
         t == DType::kQ5_K;
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_DOT_RULE_H_
