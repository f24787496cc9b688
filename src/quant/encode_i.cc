// IQ3_S: magnitudes of four elements at a time are an entry of a grid of 512, signs are stored
// beside.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "quant/codebooks.h"
#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

constexpr int kGroup = 4;
constexpr int kSub = 32;
constexpr int kSubs = kSuperBlock / kSub;
constexpr size_t kLattice = 4096;  // four magnitudes of 8 each: 1, 3, .. 15
constexpr size_t kNeighbours = 12;

// For every point of the lattice the grid's entries nearest to it, so that encoding tries a few
// entries rather than 512. Which one is best still depends on the weights and on what was rounded
// away.
class NearestEntries {
 public:
  NearestEntries() {
    std::array<uint16_t, kIq3SGrid.size()> order;
    for (size_t p = 0; p < kLattice; ++p) {
      std::array<int, kIq3SGrid.size()> distance;
      for (size_t e = 0; e < distance.size(); ++e) {
        distance[e] = 0;
        for (size_t j = 0; j < kGroup; ++j) {
          const int magnitude = 2 * static_cast<int>((p >> (3 * j)) & 7) + 1;
          const int difference = magnitude - static_cast<int>((kIq3SGrid[e] >> (8 * j)) & 255);
          distance[e] += difference * difference;
        }
      }
      std::iota(order.begin(), order.end(), uint16_t{0});
      std::partial_sort(order.begin(), order.begin() + kNeighbours, order.end(),
                        [&](uint16_t a, uint16_t b) {
                          return distance[a] != distance[b] ? distance[a] < distance[b] : a < b;
                        });
      std::copy_n(order.begin(), kNeighbours, near_[p].begin());
    }
  }
  const std::array<uint16_t, kNeighbours>& of(size_t point) const { return near_[point]; }

 private:
  std::array<std::array<uint16_t, kNeighbours>, kLattice> near_;
};

const NearestEntries& nearest_entries() {
  static const NearestEntries entries;
  return entries;
}

float magnitude(uint32_t entry, int j) { return static_cast<float>((entry >> (8 * j)) & 255U); }

// The best grid entry for four elements under `scale`, and its weighted error.
struct Choice {
  uint16_t entry = 0;
  double error = std::numeric_limits<double>::max();
};
Choice choose_entry(const float* x, const float* w, float scale) {
  const float id = inverse(scale);
  size_t point = 0;
  for (int j = 0; j < kGroup; ++j) {
    const float digit = round_to((std::fabs(x[j] * id) - 1.0F) * 0.5F, 0, 7);
    point |= static_cast<size_t>(digit) << (3 * j);
  }
  Choice best;
  for (const uint16_t e : nearest_entries().of(point)) {
    double error = 0;
    for (int j = 0; j < kGroup; ++j) {
      const double d = std::fabs(double{x[j]}) - double{scale} * double{magnitude(kIq3SGrid[e], j)};
      error += double{w[j]} * d * d;
    }
    if (error < best.error) best = {e, error};
  }
  return best;
}

// Signed levels of `count` elements under `scale`; returns the weighted error.
double grid_levels(const float* x, const float* w, int count, float scale, float* v) {
  double error = 0;
  for (int g = 0; g < count; g += kGroup) {
    const Choice c = choose_entry(x + g, w + g, scale);
    for (int j = 0; j < kGroup; ++j) {
      v[g + j] = std::copysign(magnitude(kIq3SGrid[c.entry], j), x[g + j]);
    }
    error += c.error;
  }
  return error;
}

// The scale of a sub-block for itself: the largest magnitude is put around the grid's largest, 15.
float fit_grid_scale(const float* x, const float* w) {
  constexpr int kTries = 19;
  constexpr float kFirst = 10.2F;
  constexpr float kStep = 0.4F;
  const float largest = std::fabs(extreme(x, w, kSub));
  if (inverse(largest) == 0.0F) return 0;
  float best = 0;
  double best_gain = 0;
  std::array<float, kSub> v;
  const auto attempt = [&](float largest_level) {
    grid_levels(x, w, kSub, largest / largest_level, v.data());
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
  // Few entries of the grid have four large magnitudes: flat sub-blocks fit lower levels better.
  for (const float level : {1.0F, 3.0F, 5.0F, 7.0F, 9.0F}) attempt(level);
  return best;
}

uint16_t entry_of(const float* v) {
  uint32_t packed = 0;
  for (int j = 0; j < kGroup; ++j) packed |= static_cast<uint32_t>(std::fabs(v[j])) << (8 * j);
  return static_cast<uint16_t>(std::find(kIq3SGrid.begin(), kIq3SGrid.end(), packed) -
                               kIq3SGrid.begin());
}

}  // namespace

void encode_block(const float* x, const float* w, BlockIq3S& b) {
  std::array<float, kSubs> wanted;
  for (int s = 0; s < kSubs; ++s) {
    wanted[static_cast<size_t>(s)] = fit_grid_scale(x + s * kSub, w + s * kSub);
  }
  const Multiplier multiplier = {1, 2, 0, 15};
  const float d = largest_of(wanted) / static_cast<float>(multiplier.of(multiplier.hi));
  const auto levels = [&](int first, int count, float scale, float* v) {
    return grid_levels(x + first, w + first, count, scale, v);
  };
  const auto f = fit_super<kSubs>(x, w, d, wanted, multiplier, levels);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (int s = 0; s < kSubs; ++s) {
    b.scales[s / 2] |= static_cast<uint8_t>(f.scale[static_cast<size_t>(s)] << (s % 2 * 4));
  }
  for (int g = 0; g < kSuperBlock / kGroup; ++g) {
    const uint16_t entry = entry_of(f.v.data() + g * kGroup);
    b.qs[g] = static_cast<uint8_t>(entry & 255);
    b.qh[g / 8] |= static_cast<uint8_t>((entry >> 8) << (g % 8));
  }
  for (int i = 0; i < kSuperBlock; ++i) {
    const int negative = std::signbit(f.v[static_cast<size_t>(i)]) ? 1 : 0;
    b.signs[i / 8] |= static_cast<uint8_t>(negative << (i % 8));
  }
}

}  // namespace chimere::quant
