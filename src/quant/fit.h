// Searches for scales that minimise the weighted squared error of a block. Internal to the module.
#ifndef CHIMERE_QUANT_FIT_H_
#define CHIMERE_QUANT_FIT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace chimere::quant {

/// Nearest integer in [lo, hi] as a float, ties to even. Adding 1.5 * 2^23 removes the fraction;
/// unlike a call to rint this vectorises everywhere.
inline float round_to(float v, float lo, float hi) {
  constexpr float kNoFraction = 12582912.0F;
  const float clamped = v < lo ? lo : (v > hi ? hi : v);
  return (clamped + kNoFraction) - kNoFraction;
}

/// 1 / d, or 0 where d is 0 or so small that the inverse overflows.
inline float inverse(float d) {
  const float i = 1.0F / d;
  return std::isfinite(i) ? i : 0.0F;
}

/// The element of largest magnitude, with its sign, among those with a weight above 0.
inline float extreme(const float* x, const float* w, int n) {
  float e = 0;
  for (int i = 0; i < n; ++i) {
    if (w[i] > 0 && std::fabs(x[i]) > std::fabs(e)) e = x[i];
  }
  return e;
}

/// f32 -> f16 -> f32 for scales; overflow saturates at the largest finite value.
float storable(float scale);

/// Weighted error of x by d * level(x / d), where `level` maps a float to the nearest level (a
/// float).
template <typename Level>
double scaled_error(const float* x, const float* w, int n, float d, Level level) {
  const float id = inverse(d);
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const double e = double{x[i]} - double{d} * double{level(x[i] * id)};
    error += double{w[i]} * e * e;
  }
  return error;
}

/// The scale d (of either sign) with the smallest error of x ~ d * level(x / d), with levels from
/// `lo` < 0 to `hi`. The extreme element is mapped to and around each end of the range; each
/// candidate's scale is then solved by least squares, and the best is refined until the levels no
/// longer change.
template <typename Level>
float fit_scale(const float* x, const float* w, int n, float lo, float hi, Level level) {
  constexpr int kTries = 9;
  constexpr int kRounds = 4;
  const float e = extreme(x, w, n);
  if (inverse(e) == 0.0F) return 0.0F;
  double best_gain = 0;
  float best = 0;
  const auto attempt = [&](float id) {
    double xl = 0;
    double ll = 0;
    for (int i = 0; i < n; ++i) {
      const float l = level(x[i] * id);
      xl += double{w[i]} * double{x[i]} * double{l};
      ll += double{w[i]} * double{l} * double{l};
    }
    // With the best d for these levels, the error is sum w x^2 - xl^2 / ll.
    if (ll <= 0 || xl * xl <= best_gain * ll) return false;
    best_gain = xl * xl / ll;
    best = static_cast<float>(xl / ll);
    return true;
  };
  // A tenth of a level at 16 levels and, in proportion, at others.
  const float step = (hi - lo) / 150.0F;
  for (const float end : {lo, hi}) {
    for (int t = -kTries; t <= kTries; ++t) {
      attempt((end + static_cast<float>(t) * step) / e);
    }
  }
  for (int round = 0; round < kRounds && attempt(inverse(best)); ++round) {
  }
  return best;
}

/// x ~ d * q + m with q in 0..levels.
struct Affine {
  float d = 0;
  float m = 0;
};
/// `only_negative`: m must not be above 0 (the K-quants store -m as an unsigned number).
Affine fit_affine(const float* x, const float* w, int n, int levels, bool only_negative);

/// Writes the best q in 0..levels for x ~ d * q + m and returns the weighted error.
double affine_levels(const float* x, const float* w, int n, Affine a, int levels, uint8_t* q);

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_FIT_H_
