// exp and log in double precision from plain multiplications and additions, with the same bits on
// every machine and GPU. (The C library does not guarantee that: it chooses fused or unfused
// variants by processor.) The relative error is below 1e-15.
#ifndef CHIMERE_KERNELS_EXACT_MATH_H_
#define CHIMERE_KERNELS_EXACT_MATH_H_

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels {

/// e^x for x <= 0 (differences from a maximum); below -708, where the result would be subnormal, 0.
/// No branches, so that loops over it vectorise.
CHIMERE_INLINE double exp_nonpositive(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High =
      6.93147180369123816490e-01;  // the upper 33 bits: n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRound =
      0x1.8p52;  // adding it rounds to an integer, left in the low mantissa bits
  const double clamped = x < -708.0 ? -708.0 : x;
  const double shifted = clamped * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;  // |r| <= ln 2 / 2
  // Taylor to degree 13: the remainder is below 0.3466^14 / 14! = 5e-18.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // The low bits of `shifted` are n in two's complement; moved to the exponent field they scale by
  // 2^n.
  const uint64_t scaled =
      __builtin_bit_cast(uint64_t, p) + (__builtin_bit_cast(uint64_t, shifted) << 52);
  return x < -708.0 ? 0.0 : __builtin_bit_cast(double, scaled);
}

/// ln x for normal x > 0.
CHIMERE_INLINE double log_positive(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr uint64_t kMantissa = 0xFFFFFFFFFFFFF;
  const auto bits = __builtin_bit_cast(uint64_t, x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = __builtin_bit_cast(double, (bits & kMantissa) | uint64_t{1022} << 52);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716; the series to s^23 leaves less than
  // 1e-19.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 3; k -= 2) p = p * z + 1.0 / k;
  const double log_m = 2.0 * s + 2.0 * s * (z * p);
  return exponent * kLn2High + (exponent * kLn2Low + log_m);
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_EXACT_MATH_H_
