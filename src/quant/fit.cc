#include "quant/fit.h"

#include <limits>

#include "quant/quant.h"

namespace chimere::quant {
namespace {

constexpr float kMaxF16 = 65504.0F;

struct Sums {
  double w = 0, x = 0, xx = 0, q = 0, qq = 0, xq = 0;
};

struct Solution {
  Affine affine;
  double error = 0;
};

// Least squares for x ~ d q + m over fixed levels q.
Solution solve(const Sums& s, bool only_negative) {
  const double determinant = s.w * s.qq - s.q * s.q;
  double d = 0;
  double m = s.w > 0 ? s.x / s.w : 0;
  if (determinant > 0) {
    d = (s.w * s.xq - s.q * s.x) / determinant;
    m = (s.qq * s.x - s.q * s.xq) / determinant;
  }
  if (only_negative && m > 0) {
    m = 0;
    d = s.qq > 0 ? s.xq / s.qq : 0;
  }
  const double error =
      s.xx - 2 * d * s.xq - 2 * m * s.x + d * d * s.qq + 2 * d * m * s.q + m * m * s.w;
  return {{static_cast<float>(d), static_cast<float>(m)}, error};
}

Sums sums_for(const float* x, const float* w, int n, Affine a, int levels) {
  const float id = inverse(a.d);
  Sums s;
  for (int i = 0; i < n; ++i) {
    const double q = round_to((x[i] - a.m) * id, 0, static_cast<float>(levels));
    const double wi = w[i];
    const double xi = x[i];
    s.w += wi;
    s.x += wi * xi;
    s.xx += wi * xi * xi;
    s.q += wi * q;
    s.qq += wi * q * q;
    s.xq += wi * xi * q;
  }
  return s;
}

}  // namespace

float storable(float scale) { return f16_to_f32(f32_to_f16(std::clamp(scale, -kMaxF16, kMaxF16))); }

Affine fit_affine(const float* x, const float* w, int n, int levels, bool only_negative) {
  constexpr int kTries = 10;
  constexpr float kStep = 0.1F;
  constexpr int kRounds = 4;
  float lo = std::numeric_limits<float>::max();
  float hi = std::numeric_limits<float>::lowest();
  for (int i = 0; i < n; ++i) {
    if (w[i] <= 0) continue;
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  if (lo > hi) return {};  // no element has a weight above 0
  if (only_negative) lo = std::min(lo, 0.0F);
  if (inverse(hi - lo) == 0.0F) return {0, lo};
  Solution best;
  bool found = false;
  const auto attempt = [&](Affine start) {
    const Solution s = solve(sums_for(x, w, n, start, levels), only_negative);
    if (s.affine.d < 0 || (found && s.error >= best.error)) return false;
    best = s;
    found = true;
    return true;
  };
  for (int t = -kTries; t <= kTries; ++t) {
    attempt({(hi - lo) / (static_cast<float>(levels) + static_cast<float>(t) * kStep), lo});
  }
  for (int round = 0; round < kRounds && attempt(best.affine); ++round) {
  }
  return best.affine;
}

double affine_levels(const float* x, const float* w, int n, Affine a, int levels, uint8_t* q) {
  const float id = inverse(a.d);
  double error = 0;
  for (int i = 0; i < n; ++i) {
    const float l = round_to((x[i] - a.m) * id, 0, static_cast<float>(levels));
    const double e = double{x[i]} - double{a.d} * double{l} - double{a.m};
    error += double{w[i]} * e * e;
    q[i] = static_cast<uint8_t>(l);
  }
  return error;
}

}  // namespace chimere::quant
