// Searches for scales that minimise the weighted squared error of a block. Internal to the module.
#ifndef CHIMERE_QUANT_FIT_H_
#define CHIMERE_QUANT_FIT_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

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

/// Elements and ranges below this have an f16 scale of 0; the inverse of a smaller one, times a
/// level, may overflow.
inline constexpr float kNegligible = 1e-30F;

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

/// Candidates that are compared at once: one for each lane of a vector.
inline constexpr int kCandidates = 16;

/// The sum of lanes: halves are added until one is left.
inline float sum_of(float (&lanes)[kCandidates]) {
  for (int half = kCandidates / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

/// The lane of the least of 16 errors, none negative; their last four bits do not count.
inline size_t lane_of_least(const float (&errors)[kCandidates]) {
  uint32_t key[kCandidates];  // numbers from 0 on are ordered as their bits are
  for (uint32_t j = 0; j < kCandidates; ++j) {
    key[j] = (std::bit_cast<uint32_t>(errors[j]) & ~15U) | j;
  }
  for (int half = kCandidates / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) key[j] = key[j + half] < key[j] ? key[j + half] : key[j];
  }
  return key[0] & 15U;
}

/// Writes level(x / d), where `level` maps a float to the nearest level (a float), for n elements,
/// a multiple of 16, and returns the weighted error of d times these.
template <typename Level>
float put_levels(const float* x, const float* w, int n, float d, Level level, float* v) {
  const float id = inverse(d);
  float error[kCandidates] = {};
  for (int i = 0; i < n; i += kCandidates) {
    for (int j = 0; j < kCandidates; ++j) {
      const float l = level(x[i + j] * id);
      const float e = x[i + j] - d * l;
      error[j] += w[i + j] * e * e;
      v[i + j] = l;
    }
  }
  return sum_of(error);
}

/// The scale d (of either sign) with the smallest error of x ~ d * level(x / d) over n elements, a
/// multiple of 16, with levels from `lo` < 0 to `hi`. The extreme element is mapped to and around
/// each end of the range, and to 0.7 to 1.93 times each end: with uneven weights it is often best
/// to clip it. Each candidate's scale is then solved by least squares, and the best is refined
/// until the levels no longer change. |x| < 1e15, w <= 1.
template <typename Level>
float fit_scale(const float* x, const float* w, int n, float lo, float hi, Level level) {
  constexpr int kTries = 8;
  constexpr float kFirstRatio = 0.7F;
  constexpr float kRatioStep = 1.07F;
  constexpr int kRounds = 4;
  const float e = extreme(x, w, n);
  if (std::fabs(e) < kNegligible) return 0.0F;
  float best_gain = 0;
  float best = 0;
  // With the best d for given levels l, the error is sum w x^2 - xl^2 / ll.
  const auto take = [&](float xl, float ll) {
    if (ll <= 0 || xl * xl <= best_gain * ll) return false;
    best_gain = xl * xl / ll;
    best = xl / ll;
    return true;
  };
  const auto compare = [&](const float(&id)[kCandidates]) {
    float xl[kCandidates] = {};
    float ll[kCandidates] = {};
    for (int i = 0; i < n; ++i) {
      for (int c = 0; c < kCandidates; ++c) {
        const float l = level(x[i] * id[c]);
        const float wl = w[i] * l;
        xl[c] += x[i] * wl;
        ll[c] += l * wl;
      }
    }
    for (int c = 0; c < kCandidates; ++c) take(xl[c], ll[c]);
  };
  // An eighth of a level; more where the range is longer than 15.
  const float step = std::max((hi - lo) / 120.0F, 0.125F);
  for (const float end : {lo, hi}) {
    float id[kCandidates];
    for (int c = 0; c < kCandidates; ++c) id[c] = (end + static_cast<float>(c - kTries) * step) / e;
    compare(id);
    float mapped = kFirstRatio * end;
    for (float& i : id) {
      i = mapped / e;
      mapped *= kRatioStep;
    }
    compare(id);
  }
  const auto refine = [&](float id) {
    float xl[kCandidates] = {};
    float ll[kCandidates] = {};
    for (int i = 0; i < n; i += kCandidates) {
      for (int j = 0; j < kCandidates; ++j) {
        const float l = level(x[i + j] * id);
        const float wl = w[i + j] * l;
        xl[j] += x[i + j] * wl;
        ll[j] += l * wl;
      }
    }
    return take(sum_of(xl), sum_of(ll));
  };
  for (int round = 0; round < kRounds && refine(inverse(best)); ++round) {
  }
  return best;
}

/// x ~ d * q + m with q in 0..levels.
struct Affine {
  float d = 0;
  float m = 0;
};

/// The d >= 0 and m of least error. n: a multiple of 16. Maps all of x, or all but a part at each
/// end, to the levels; each candidate is solved by least squares, and the best is refined.
/// `only_negative`: m must not be above 0 (the K-quants store -m as an unsigned number). |x| <
/// 1e15, w <= 1.
inline Affine fit_affine(const float* x, const float* w, int n, int levels, bool only_negative) {
  constexpr int kBlocks = 2;
  constexpr float kFirst = -1.0F;
  constexpr float kStep = 0.0625F;
  constexpr int kRounds = 4;
  // Parts of the range of x that are clipped at each end, in all pairs: with uneven weights, or few
  // levels, this is often best.
  constexpr float kClipped[] = {0.02F, 0.07F, 0.14F, 0.25F};
  constexpr int kClips = 4;
  static_assert(kClips * kClips == kCandidates);
  const auto top = static_cast<float>(levels);
  float lo = std::numeric_limits<float>::max();
  float hi = std::numeric_limits<float>::lowest();
  for (int i = 0; i < n; ++i) {
    lo = w[i] > 0 && x[i] < lo ? x[i] : lo;
    hi = w[i] > 0 && x[i] > hi ? x[i] : hi;
  }
  if (lo > hi) return {};  // no element has a weight above 0
  if (only_negative) lo = std::min(lo, 0.0F);
  if (hi - lo < kNegligible) return {0, lo};
  // Sums over x - lo, so that a large mean costs no precision.
  double sw = 0;
  double sx = 0;
  double sxx = 0;
  for (int i = 0; i < n; ++i) {
    const double y = double{x[i]} - double{lo};
    sw += double{w[i]};
    sx += double{w[i]} * y;
    sxx += double{w[i]} * y * y;
  }
  const double largest_m = only_negative ? -double{lo} : std::numeric_limits<double>::max();
  double least = std::numeric_limits<double>::max();
  double best_d = 0;
  double best_m = 0;  // added to lo
  // Least squares over the levels whose sums these are.
  const auto take = [&](double q, double qq, double xq) {
    const double determinant = sw * qq - q * q;
    double d = 0;
    double m = sw > 0 ? sx / sw : 0;
    if (determinant > 0) {
      d = (sw * xq - q * sx) / determinant;
      m = (qq * sx - q * xq) / determinant;
    }
    if (m > largest_m) {
      m = largest_m;
      d = qq > 0 ? (xq - m * q) / qq : 0;
    }
    const double error = sxx - 2 * d * xq - 2 * m * sx + d * d * qq + 2 * d * m * q + m * m * sw;
    if (d < 0 || error >= least) return false;
    least = error;
    best_d = d;
    best_m = m;
    return true;
  };
  // Levels round(y * id - offset), y = x - lo.
  const auto compare = [&](const float(&id)[kCandidates], const float(&offset)[kCandidates]) {
    float q[kCandidates] = {};
    float qq[kCandidates] = {};
    float xq[kCandidates] = {};
    for (int i = 0; i < n; ++i) {
      const float y = x[i] - lo;
      for (int c = 0; c < kCandidates; ++c) {
        const float l = round_to(y * id[c] - offset[c], 0, top);
        const float wl = w[i] * l;
        q[c] += wl;
        qq[c] += l * wl;
        xq[c] += y * wl;
      }
    }
    for (int c = 0; c < kCandidates; ++c) take(double{q[c]}, double{qq[c]}, double{xq[c]});
  };
  float ids[kCandidates];
  float offsets[kCandidates] = {};
  for (int block = 0; block < kBlocks; ++block) {
    for (int c = 0; c < kCandidates; ++c) {
      ids[c] = (top + kFirst + kStep * static_cast<float>(block * kCandidates + c)) / (hi - lo);
    }
    compare(ids, offsets);
  }
  for (int c = 0; c < kCandidates; ++c) {
    const float below = kClipped[c / kClips];
    const float levels_of_range = top / (1.0F - below - kClipped[c % kClips]);
    ids[c] = levels_of_range / (hi - lo);
    offsets[c] = levels_of_range * below;
  }
  compare(ids, offsets);
  const auto refine = [&] {
    const float id = inverse(static_cast<float>(best_d));
    const auto m = static_cast<float>(best_m);
    float q[kCandidates] = {};
    float qq[kCandidates] = {};
    float xq[kCandidates] = {};
    for (int i = 0; i < n; i += kCandidates) {
      for (int j = 0; j < kCandidates; ++j) {
        const float y = x[i + j] - lo;
        const float l = round_to((y - m) * id, 0, top);
        const float wl = w[i + j] * l;
        q[j] += wl;
        qq[j] += l * wl;
        xq[j] += y * wl;
      }
    }
    return take(double{sum_of(q)}, double{sum_of(qq)}, double{sum_of(xq)});
  };
  for (int round = 0; round < kRounds && refine(); ++round) {
  }
  return {static_cast<float>(best_d), static_cast<float>(double{lo} + best_m)};
}

/// Writes the best q in 0..levels for x ~ d * q + m.
inline void put_affine_levels(const float* x, int n, Affine a, int levels, uint8_t* q) {
  const float id = inverse(a.d);
  for (int i = 0; i < n; ++i) {
    q[i] = static_cast<uint8_t>(round_to((x[i] - a.m) * id, 0, static_cast<float>(levels)));
  }
}

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_FIT_H_
