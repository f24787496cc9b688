// Elementary functions of this module; those in double precision are shared with the GPU kernels.
#ifndef CHIMERE_SAMPLING_MATH_H_
#define CHIMERE_SAMPLING_MATH_H_

#include <bit>
#include <cstdint>

#include "kernels/exact_math.h"

namespace chimere::sampling {

using kernels::exp_nonpositive;
using kernels::log_positive;

/// ln x for normal x > 0 in single precision, with an absolute error below 3e-7. The counterpart of
/// kernels::exp_f32().
inline float log_positive_f32(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3;  // the bits of sqrt(1 / 2)
  const auto bits = std::bit_cast<uint32_t>(x) - kRootHalf;
  const int32_t exponent = static_cast<int32_t>(bits) >> 23;
  const float m = std::bit_cast<float>((bits & 0x7fffffU) + kRootHalf);  // [sqrt(1/2), sqrt(2))
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716; the truncated terms are below 2e-9.
  const float s = (m - 1.0F) / (m + 1.0F);
  const float z = s * s;
  const float tail = z * (1.0F / 3 + z * (1.0F / 5 + z * (1.0F / 7 + z * (1.0F / 9))));
  return static_cast<float>(exponent) * 0.693147181F + (2.0F * s + 2.0F * s * tail);
}

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_MATH_H_
