// IQ3_S and IQ3_XXS: the magnitudes of four elements are a grid entry; signs are stored separately.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "quant/clones.h"
#include "quant/codebooks.h"
#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

constexpr int kGroup = 4;
constexpr int kSigns = 8;
constexpr int kSub = 32;
constexpr int kSubs = kSuperBlock / kSub;
constexpr size_t kLattice = 4096;   // four magnitudes of 8 each: 1, 3, .. 15
constexpr size_t kNeighbours = 16;  // one for each lane of a vector

// A grid of magnitudes near 1, 3, .. 15 (IQ3_XXS in quarters of its units, with 15.5 for the last).
// For every point of the lattice of such magnitudes it stores the nearest entries, so that encoding
// tries a few entries instead of all. Which of them is best depends on the weights and the rounding
// errors.
class Grid {
 public:
  /// `even_signs`: the number of negatives among eight elements must be even.
  template <size_t kEntries>
  Grid(const std::array<uint32_t, kEntries>& entries, float unit, bool even_signs)
      : entries_(entries.begin(), entries.end()), unit_(unit), even_signs_(even_signs) {
    std::vector<uint16_t> order(kEntries);
    std::vector<float> distance(kEntries);
    for (size_t p = 0; p < kLattice; ++p) {
      for (size_t e = 0; e < kEntries; ++e) {
        distance[e] = 0;
        for (int j = 0; j < kGroup; ++j) {
          const auto point = static_cast<float>(2 * ((p >> (3 * j)) & 7) + 1);
          const float difference = point - magnitude(e, j);
          distance[e] += difference * difference;
        }
      }
      std::iota(order.begin(), order.end(), uint16_t{0});
      std::partial_sort(order.begin(), order.begin() + kNeighbours, order.end(),
                        [&](uint16_t a, uint16_t b) {
                          return distance[a] != distance[b] ? distance[a] < distance[b] : a < b;
                        });
      std::copy_n(order.begin(), kNeighbours, near_[p].begin());
      for (int j = 0; j < kGroup; ++j) {
        for (size_t c = 0; c < kNeighbours; ++c) {
          near_bytes_[p][static_cast<size_t>(j)][c] =
              static_cast<uint8_t>(entries_[near_[p][c]] >> (8 * j));
        }
      }
    }
  }

  float magnitude(size_t entry, int j) const {
    return unit_ * static_cast<float>((entries_[entry] >> (8 * j)) & 255U);
  }
  bool even_signs() const { return even_signs_; }
  float unit() const { return unit_; }
  const std::array<uint16_t, kNeighbours>& near(size_t point) const { return near_[point]; }
  /// Place by place: the magnitudes of near(point) in units.
  const auto& near_bytes(size_t point) const { return near_bytes_[point]; }

  /// The entry with these magnitudes.
  uint16_t find(const float* v) const {
    uint32_t packed = 0;
    for (int j = 0; j < kGroup; ++j) {
      packed |= static_cast<uint32_t>(std::fabs(v[j]) / unit_) << (8 * j);
    }
    return static_cast<uint16_t>(std::find(entries_.begin(), entries_.end(), packed) -
                                 entries_.begin());
  }

 private:
  std::vector<uint32_t> entries_;
  float unit_;
  bool even_signs_;
  std::array<std::array<uint16_t, kNeighbours>, kLattice> near_;
  std::array<std::array<std::array<uint8_t, kNeighbours>, kGroup>, kLattice> near_bytes_;
};

[[gnu::noinline]] const Grid& iq3_s_grid() {
  static const Grid grid(kIq3SGrid, 1, false);
  return grid;
}

[[gnu::noinline]] const Grid& iq3_xxs_grid() {
  static const Grid grid(kIq3XxsGrid, 0.25F, true);
  return grid;
}

// The best grid entry for four target magnitudes under `scale`, and its weighted error.
struct Choice {
  uint16_t entry = 0;
  double error = std::numeric_limits<double>::max();
};
Choice choose_entry(const Grid& grid, const float* wanted, const float* w, float scale) {
  const float id = inverse(scale);
  size_t point = 0;
  for (int j = 0; j < kGroup; ++j) {
    const float digit = round_to((wanted[j] * id - 1.0F) * 0.5F, 0, 7);
    point |= static_cast<size_t>(digit) << (3 * j);
  }
  const auto& near = grid.near_bytes(point);
  const float s = scale * grid.unit();
  float error[kNeighbours] = {};
  for (int j = 0; j < kGroup; ++j) {
    const auto& bytes = near[static_cast<size_t>(j)];
    for (size_t c = 0; c < kNeighbours; ++c) {
      const float d = wanted[j] - s * static_cast<float>(bytes[c]);
      error[c] += w[j] * d * d;
    }
  }
  const size_t best = lane_of_least(error);
  return {grid.near(point)[best], double{error[best]}};
}

// If the number of negatives must be even and is not: the element for which a wrong sign costs
// least.
int cheapest_flip(const float* x, const float* w) {
  int cheapest = 0;
  double least = std::numeric_limits<double>::max();
  for (int j = 0; j < kSigns; ++j) {
    const double cost = double{w[j]} * double{x[j]} * double{x[j]};
    if (cost < least) {
      least = cost;
      cheapest = j;
    }
  }
  return cheapest;
}

// Signed levels of `count` elements under `scale`; returns the weighted error.
double grid_levels(const Grid& grid, const float* x, const float* w, int count, float scale,
                   float* v) {
  double error = 0;
  for (int i = 0; i < count; i += kSigns) {
    std::array<float, kSigns> wanted;
    std::array<float, kSigns> sign;
    bool odd = false;
    for (int j = 0; j < kSigns; ++j) {
      const auto at = static_cast<size_t>(j);
      wanted[at] = std::fabs(x[i + j]);
      sign[at] = std::copysign(1.0F, x[i + j]);
      odd = odd != std::signbit(x[i + j]);
    }
    if (odd && grid.even_signs()) {
      const auto at = static_cast<size_t>(cheapest_flip(x + i, w + i));
      wanted[at] = -wanted[at];
      sign[at] = -sign[at];
    }
    for (int g = 0; g < kSigns; g += kGroup) {
      const Choice c = choose_entry(grid, wanted.data() + g, w + i + g, scale);
      const float* signs = sign.data() + g;
      for (int j = 0; j < kGroup; ++j) v[i + g + j] = signs[j] * grid.magnitude(c.entry, j);
      error += c.error;
    }
  }
  return error;
}

// The scale of one sub-block: maps its largest magnitude to around the grid's largest, 15.
float fit_grid_scale(const Grid& grid, const float* x, const float* w) {
  constexpr int kTries = 19;
  constexpr float kFirst = 10.2F;
  constexpr float kStep = 0.4F;
  const float largest = std::fabs(extreme(x, w, kSub));
  if (inverse(largest) == 0.0F) return 0;
  float best = 0;
  double best_gain = 0;
  std::array<float, kSub> v;
  const auto attempt = [&](float largest_level) {
    grid_levels(grid, x, w, kSub, largest / largest_level, v.data());
    double xv = 0;
    double vv = 0;
    for (int i = 0; i < kSub; ++i) {
      const double l = v[static_cast<size_t>(i)];
      xv += double{w[i]} * double{x[i]} * l;
      vv += double{w[i]} * l * l;
    }
    if (vv > 0 && xv * xv > best_gain * vv) {
      best_gain = xv * xv / vv;
      best = static_cast<float>(xv / vv);
    }
  };
  for (int t = 0; t < kTries; ++t) attempt(kFirst + static_cast<float>(t) * kStep);
  // Few grid entries have four large magnitudes: flat sub-blocks fit lower levels better.
  for (const float level : {1.0F, 3.0F, 5.0F, 7.0F, 9.0F}) attempt(level);
  return best;
}

SuperFit<kSubs> fit_grid(const Grid& grid, const float* x, const float* w) {
  std::array<float, kSubs> wanted;
  for (int s = 0; s < kSubs; ++s) {
    wanted[static_cast<size_t>(s)] = fit_grid_scale(grid, x + s * kSub, w + s * kSub);
  }
  const Multiplier multiplier = {1, 2, 0, 15};
  const float d = largest_of(wanted) / static_cast<float>(multiplier.of(multiplier.hi));
  const auto levels = [&](int first, int count, float scale, float* v) {
    return grid_levels(grid, x + first, w + first, count, scale, v);
  };
  return fit_super<kSubs>(x, w, d, wanted, multiplier, levels);
}

// Bit i: element i is negative.
uint8_t signs_of(const float* v) {
  unsigned signs = 0;
  for (unsigned j = 0; j < kSigns; ++j) signs |= (std::signbit(v[j]) ? 1U : 0U) << j;
  return static_cast<uint8_t>(signs);
}

}  // namespace

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq3S& b) {
  const auto f = fit_grid(iq3_s_grid(), x, w);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kSubs; ++s) {
    b.scales[s / 2] |= static_cast<uint8_t>(f.scale[static_cast<size_t>(s)] << (s % 2 * 4));
  }
  for (int g = 0; g < kSuperBlock / kGroup; ++g) {
    const uint16_t entry = iq3_s_grid().find(f.v.data() + g * kGroup);
    b.qs[g] = static_cast<uint8_t>(entry & 255);
    b.qh[g / 8] |= static_cast<uint8_t>((entry >> 8) << (g % 8));
  }
  for (int g = 0; g < kSuperBlock / kSigns; ++g) b.signs[g] = signs_of(f.v.data() + g * kSigns);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq3Xxs& b) {
  const auto f = fit_grid(iq3_xxs_grid(), x, w);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int g = 0; g < kSuperBlock / kGroup; ++g) {
    b.qs[g] = static_cast<uint8_t>(iq3_xxs_grid().find(f.v.data() + g * kGroup));
  }
  for (int s = 0; s < kSubs; ++s) {
    auto packed = static_cast<uint32_t>(f.scale[static_cast<size_t>(s)]) << 28;
    for (int g = 0; g < kSub / kSigns; ++g) {
      packed |= (signs_of(f.v.data() + s * kSub + g * kSigns) & 127U) << (7 * g);
    }
    std::memcpy(b.scales_and_signs + 4 * s, &packed, sizeof packed);
  }
}

}  // namespace chimere::quant
