// Cosine and sine of an angle in double, by Taylor series without the C library: the same bits on
// every machine and GPU. Accurate to a few units in the last place of double, far below the
// rounding to f32 that follows. The series are Horner schemes, long enough for the reduced range.
#ifndef CHIMERE_KERNELS_ROPE_ANGLE_H_
#define CHIMERE_KERNELS_ROPE_ANGLE_H_

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels {

/// To the nearest integer, for |x| below 2^51.
CHIMERE_INLINE double nearest_integer(double x) {
  constexpr double kBias = 0x1.8p+52;
  return (x + kBias) - kBias;
}

struct CosSin {
  double cos;
  double sin;
};

/// x = n π/2 + r, |r| <= π/4; the quadrant n mod 4 selects the series. π/2 is split into two parts;
/// the first has 33 bits, so that its product with an integer n below 2^20 is exact.
CHIMERE_INLINE CosSin cos_sin(double x) {
  constexpr double kHalfPi = 0x1.921fb544p+0;
  constexpr double kHalfPiRest = 0x1.0b4611a626331p-34;
  const double sin_series[] = {
      -1.0 / 6,        1.0 / 120,          -1.0 / 5040,         1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368e3, 1.0 / 355687428096e3};
  const double cos_series[] = {
      -1.0 / 2,       1.0 / 24,          -1.0 / 720,           1.0 / 40320,
      -1.0 / 3628800, 1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888e3};
  const double n = nearest_integer(x / kHalfPi);
  const double r = (x - n * kHalfPi) - n * kHalfPiRest;
  const double r2 = r * r;
  double s = 0;
  double c = 0;
  for (int k = 7; k >= 0; --k) {
    s = s * r2 + sin_series[k];
    c = c * r2 + cos_series[k];
  }
  s = s * r2 * r + r;
  c = c * r2 + 1.0;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_ROPE_ANGLE_H_
