// Two-level scales without a minimum: x ~ d * multiplier(s) * v. Internal to the module.
#ifndef CHIMERE_QUANT_SUPER_FIT_H_
#define CHIMERE_QUANT_SUPER_FIT_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "quant/blocks.h"
#include "quant/fit.h"

namespace chimere::quant {

/// The result for a super-block: stored scale d, an integer scale per sub-block, and the levels v
/// of its elements.
template <int kSubBlocks>
struct SuperFit {
  float d = 0;
  std::array<int, kSubBlocks> scale{};
  std::array<float, kSuperBlock> v{};
  double error = std::numeric_limits<double>::max();
};

/// The sub-block scale of largest magnitude, with its sign.
template <size_t kSubBlocks>
float largest_of(const std::array<float, kSubBlocks>& scales) {
  return *std::max_element(scales.begin(), scales.end(),
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

/// How a format's integer scales multiply d: offset + step * scale, with scale in lo..hi.
struct Multiplier {
  int offset;
  int step;
  int lo;
  int hi;

  int of(int scale) const { return offset + step * scale; }
  int nearest(float multiple) const {
    const float s = (multiple - static_cast<float>(offset)) / static_cast<float>(step);
    return static_cast<int>(round_to(s, static_cast<float>(lo), static_cast<float>(hi)));
  }
};

/// Chooses integer scales near `wanted` / d for an initial `d`, then d by least squares, and
/// iterates. `levels(first, count, scale, v)` writes the best levels for elements
/// first..first+count and returns their weighted error.
template <int kSubBlocks, typename Levels>
SuperFit<kSubBlocks> fit_super(const float* x, const float* w, float d,
                               const std::array<float, kSubBlocks>& wanted, Multiplier multiplier,
                               Levels levels) {
  constexpr int kCount = kSuperBlock / kSubBlocks;
  constexpr int kRounds = 3;
  SuperFit<kSubBlocks> best;
  for (int round = 0; round < kRounds; ++round) {
    SuperFit<kSubBlocks> now;
    now.d = storable(d);
    now.error = 0;
    const float id = inverse(now.d);
    double xv = 0;
    double vv = 0;
    for (int s = 0; s < kSubBlocks; ++s) {
      const int first = s * kCount;
      const int middle = multiplier.nearest(wanted[static_cast<size_t>(s)] * id);
      double least = std::numeric_limits<double>::max();
      std::array<float, kCount> v;
      for (int c = std::max(middle - 1, multiplier.lo); c <= std::min(middle + 1, multiplier.hi);
           ++c) {
        const double error =
            levels(first, kCount, now.d * static_cast<float>(multiplier.of(c)), v.data());
        if (error >= least) continue;
        least = error;
        now.scale[static_cast<size_t>(s)] = c;
        std::copy(v.begin(), v.end(), now.v.begin() + first);
      }
      now.error += least;
      const int m = multiplier.of(now.scale[static_cast<size_t>(s)]);
      float sub_xv[kCandidates] = {};
      float sub_vv[kCandidates] = {};
      for (int i = first; i < first + kCount; i += kCandidates) {
        for (int j = 0; j < kCandidates; ++j) {
          const float t = now.v[static_cast<size_t>(i) + j];
          sub_xv[j] += w[i + j] * x[i + j] * t;
          sub_vv[j] += w[i + j] * t * t;
        }
      }
      xv += m * double{sum_of(sub_xv)};
      vv += double{sum_of(sub_vv)} * m * m;
    }
    if (now.error >= best.error) break;
    best = now;
    if (vv <= 0) break;
    d = static_cast<float>(xv / vv);
  }
  return best;
}

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_SUPER_FIT_H_
