#include "kernels/rope.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace chimere::kernels {
namespace {

// Every function here is accurate to a few units in the last place of double, far below the final
// rounding to f32. Sums are Horner schemes of Taylor series, long enough for the reduced range.

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
// π/2 in two parts; the first has 33 bits, so that its product with an integer below 2^20 is exact.
constexpr double kHalfPi = 0x1.921fb544p+0;
constexpr double kHalfPiRest = 0x1.0b4611a626331p-34;

double nearest(double x) {
  constexpr double kBias = 0x1.8p+52;
  return (x + kBias) - kBias;
}

// ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)) with x = m 2^e, m in [sqrt(1/2), sqrt(2)).
double log_of(double x) {
  int e = 0;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    --e;
  }
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = 27; k >= 1; k -= 2) sum = sum * (s * s) + 1.0 / k;
  return e * kLn2 + 2 * s * sum;
}

// e^x = 2^n e^r, |r| <= ln 2 / 2.
double exp_of(double x) {
  const double n = nearest(x / kLn2);
  const double r = x - n * kLn2;
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = sum * (r / k) + 1.0;
  return std::ldexp(sum, static_cast<int>(n));
}

struct CosSin {
  double cos;
  double sin;
};

// x = n π/2 + r, |r| <= π/4; the quadrant n mod 4 chooses which series is which.
CosSin cos_sin(double x) {
  constexpr std::array<double, 8> kSin = {
      -1.0 / 6,        1.0 / 120,          -1.0 / 5040,         1.0 / 362880,
      -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368e3, 1.0 / 355687428096e3};
  constexpr std::array<double, 8> kCos = {
      -1.0 / 2,       1.0 / 24,          -1.0 / 720,           1.0 / 40320,
      -1.0 / 3628800, 1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888e3};
  const double n = nearest(x / kHalfPi);
  const double r = (x - n * kHalfPi) - n * kHalfPiRest;
  const double r2 = r * r;
  double s = 0;
  double c = 0;
  for (size_t k = kSin.size(); k-- > 0;) {
    s = s * r2 + kSin[k];
    c = c * r2 + kCos[k];
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

}  // namespace

void RopeTable::prepare(std::span<const int32_t> positions, int dims, float base) {
  const bool same_angles = dims == dims_ && base == base_;
  if (same_angles && std::ranges::equal(positions, positions_)) return;
  if (!same_angles) {
    frequencies_.clear();
    for (int i = 0; i < dims / 2; ++i) {
      frequencies_.push_back(exp_of(-2.0 * i / dims * log_of(base)));
    }
    dims_ = dims;
    base_ = base;
  }
  positions_.assign(positions.begin(), positions.end());
  values_.resize(positions.size() * static_cast<size_t>(dims));
  float* out = values_.data();
  for (const int32_t position : positions) {
    for (const double frequency : frequencies_) {
      const CosSin v = cos_sin(position * frequency);
      out[0] = static_cast<float>(v.cos);
      out[dims / 2] = static_cast<float>(v.sin);
      ++out;
    }
    out += dims / 2;
  }
}

}  // namespace chimere::kernels
