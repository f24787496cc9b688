// IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S and IQ1_M: eight elements are an entry of a grid of three levels.
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

constexpr int kOctet = 8;
constexpr size_t kOctetPoints = 6561;  // 3^8
constexpr size_t kOctetNear = 16;      // one for each lane of a vector

using Levels3 = std::array<float, 3>;
using Octet = std::array<float, kOctet>;

// Index of the nearest of three rising levels.
int nearest_level(const Levels3& levels, float v) {
  return (v > 0.5F * (levels[0] + levels[1]) ? 1 : 0) +
         (v > 0.5F * (levels[1] + levels[2]) ? 1 : 0);
}

// A grid whose entries have one of three levels at each of eight places. For every point of the
// lattice of these levels it stores the nearest entries; encoding tries those of the point that the
// elements round to. Which of them is best depends on the weights and the rounding errors.
class OctetGrid {
 public:
  /// Entries are whole multiples of `unit`.
  OctetGrid(std::vector<Octet> entries, const Levels3& levels, float unit)
      : entries_(std::move(entries)),
        levels_(levels),
        unit_(unit),
        near_(kOctetPoints),
        near_values_(kOctetPoints) {
    std::vector<uint16_t> order(entries_.size());
    std::vector<float> distance(entries_.size());
    for (size_t p = 0; p < kOctetPoints; ++p) {
      Octet point;
      for (size_t j = 0, rest = p; j < kOctet; ++j, rest /= 3) point[j] = levels_[rest % 3];
      for (size_t e = 0; e < entries_.size(); ++e) {
        distance[e] = 0;
        for (size_t j = 0; j < kOctet; ++j) {
          const float d = point[j] - entries_[e][j];
          distance[e] += d * d;
        }
      }
      std::iota(order.begin(), order.end(), uint16_t{0});
      std::partial_sort(order.begin(), order.begin() + kOctetNear, order.end(),
                        [&](uint16_t a, uint16_t b) {
                          return distance[a] != distance[b] ? distance[a] < distance[b] : a < b;
                        });
      std::copy_n(order.begin(), kOctetNear, near_[p].begin());
      for (size_t j = 0; j < kOctet; ++j) {
        for (size_t c = 0; c < kOctetNear; ++c) {
          near_values_[p][j][c] = static_cast<int8_t>(entries_[near_[p][c]][j] / unit_);
        }
      }
    }
  }

  const Octet& entry(size_t e) const { return entries_[e]; }

  /// The entry with these values, each of which is a level.
  uint16_t find(const Octet& v) const { return near_[point_of(v.data(), 1.0F)][0]; }

  struct Choice {
    uint16_t entry = 0;
    float error = std::numeric_limits<float>::max();
  };
  /// The entry e for which Σ w (wanted - scale e)² is least, and that sum.
  Choice choose(const float* wanted, const float* w, float scale) const {
    const size_t point = point_of(wanted, inverse(scale));
    const auto& near = near_values_[point];
    float xx = 0;
    float xv[kOctetNear] = {};
    float vv[kOctetNear] = {};
    for (size_t j = 0; j < kOctet; ++j) {
      const float wx = w[j] * wanted[j];
      xx += wx * wanted[j];
      for (size_t c = 0; c < kOctetNear; ++c) {
        const auto v = static_cast<float>(near[j][c]);
        xv[c] += wx * v;
        vv[c] += w[j] * v * v;
      }
    }
    const float s = scale * unit_;
    float error[kOctetNear];
    for (size_t c = 0; c < kOctetNear; ++c) {
      const float e = xx + s * (s * vv[c] - 2.0F * xv[c]);
      error[c] = e > 0 ? e : 0;
    }
    const size_t best = lane_of_least(error);
    return {near_[point][best], error[best]};
  }

 private:
  size_t point_of(const float* x, float factor) const {
    size_t point = 0;
    for (size_t j = kOctet; j-- > 0;) {
      point = 3 * point + static_cast<size_t>(nearest_level(levels_, x[j] * factor));
    }
    return point;
  }

  std::vector<Octet> entries_;
  Levels3 levels_;
  float unit_;
  std::vector<std::array<uint16_t, kOctetNear>> near_;
  // Of each point, place by place: the near entries in units.
  std::vector<std::array<std::array<int8_t, kOctetNear>, kOctet>> near_values_;
};

// The magnitudes 8, 25 and 43 of the IQ2 formats in units of 8, so that a scale is odd times d.
constexpr float kIq2Unit = 0.125F;
constexpr Levels3 kIq2Levels = {8 * kIq2Unit, 25 * kIq2Unit, 43 * kIq2Unit};

template <size_t kEntries>
OctetGrid magnitudes(const std::array<uint64_t, kEntries>& grid) {
  std::vector<Octet> entries(kEntries);
  for (size_t e = 0; e < kEntries; ++e) {
    for (unsigned j = 0; j < kOctet; ++j) {
      entries[e][j] = kIq2Unit * static_cast<float>((grid[e] >> (8 * j)) & 255U);
    }
  }
  return {std::move(entries), kIq2Levels, kIq2Unit};
}

[[gnu::noinline]] const OctetGrid& iq2_xxs_grid() {
  static const OctetGrid grid = magnitudes(kIq2XxsGrid);
  return grid;
}
[[gnu::noinline]] const OctetGrid& iq2_xs_grid() {
  static const OctetGrid grid = magnitudes(kIq2XsGrid);
  return grid;
}
[[gnu::noinline]] const OctetGrid& iq2_s_grid() {
  static const OctetGrid grid = magnitudes(kIq2SGrid);
  return grid;
}
[[gnu::noinline]] const OctetGrid& iq1_grid() {
  static const OctetGrid grid = [] {
    std::vector<Octet> entries(kIq1Grid.size());
    for (size_t e = 0; e < entries.size(); ++e) {
      for (unsigned j = 0; j < kOctet; ++j) {
        entries[e][j] = static_cast<float>(static_cast<int8_t>((kIq1Grid[e] >> (8 * j)) & 255U));
      }
    }
    return OctetGrid(std::move(entries), {-1, 0, 1}, 1);
  }();
  return grid;
}

// Signed levels of `count` elements as the IQ2 formats have them; returns the weighted error.
// `even`: the number of negatives among eight elements must be even; else the one whose wrong sign
// costs least gets it.
double signed_levels(const OctetGrid& grid, bool even, const float* x, const float* w, int count,
                     float scale, float* v) {
  double error = 0;
  for (int i = 0; i < count; i += kOctet) {
    Octet wanted;
    Octet sign;
    size_t cheapest = 0;
    float least = std::numeric_limits<float>::max();
    bool odd = false;
    for (size_t j = 0; j < kOctet; ++j) {
      const float value = x[i + static_cast<int>(j)];
      wanted[j] = std::fabs(value);
      sign[j] = std::copysign(1.0F, value);
      odd = odd != std::signbit(value);
      const float cost = w[i + static_cast<int>(j)] * wanted[j];
      if (cost < least) {
        least = cost;
        cheapest = j;
      }
    }
    if (odd && even) {
      wanted[cheapest] = -wanted[cheapest];
      sign[cheapest] = -sign[cheapest];
    }
    const OctetGrid::Choice c = grid.choose(wanted.data(), w + i, scale);
    const Octet& entry = grid.entry(c.entry);
    for (size_t j = 0; j < kOctet; ++j) v[i + static_cast<int>(j)] = sign[j] * entry[j];
    error += double{c.error};
  }
  return error;
}

// Ternary levels plus or minus kIq1Delta, one sign for every `shared` elements.
double ternary_levels(int shared, const float* x, const float* w, int count, float scale,
                      float* v) {
  const OctetGrid& grid = iq1_grid();
  double error = 0;
  for (int begin = 0; begin < count; begin += shared) {
    double least = std::numeric_limits<double>::max();
    for (const float delta : {kIq1Delta, -kIq1Delta}) {
      std::array<uint16_t, kBlock / kOctet> entries;
      double sum = 0;
      for (int i = 0; i < shared; i += kOctet) {
        Octet wanted;
        for (size_t j = 0; j < kOctet; ++j) {
          wanted[j] = x[begin + i + static_cast<int>(j)] - scale * delta;
        }
        const OctetGrid::Choice c = grid.choose(wanted.data(), w + begin + i, scale);
        entries[static_cast<size_t>(i / kOctet)] = c.entry;
        sum += double{c.error};
      }
      if (sum >= least) continue;
      least = sum;
      for (int i = 0; i < shared; ++i) {
        v[begin + i] = grid.entry(entries[static_cast<size_t>(i / kOctet)])[i % kOctet] + delta;
      }
    }
    error += least;
  }
  return error;
}

// The scale of one sub-block by least squares: tries to map its largest magnitude to around
// `top`, the largest level, and to `bottom`, the smallest magnitude (all elements may be alike).
template <typename Levels>
float fit_octet_scale(const float* x, const float* w, int count, float bottom, float top,
                      const Levels& levels) {
  constexpr int kTries = 15;
  constexpr float kFirst = 0.5F;
  constexpr float kStep = 0.06F;
  constexpr int kRounds = 4;
  const float largest = std::fabs(extreme(x, w, count));
  if (inverse(largest) == 0.0F) return 0;
  float best = 0;
  double best_gain = 0;
  std::array<float, kBlock> v;
  const auto attempt = [&](float scale) {
    levels(x, w, count, scale, v.data());
    double xv = 0;
    double vv = 0;
    for (int i = 0; i < count; ++i) {
      const double l = v[static_cast<size_t>(i)];
      xv += double{w[i]} * double{x[i]} * l;
      vv += double{w[i]} * l * l;
    }
    if (vv <= 0 || xv <= 0 || xv * xv <= best_gain * vv) return false;
    best_gain = xv * xv / vv;
    best = static_cast<float>(xv / vv);
    return true;
  };
  attempt(largest / bottom);
  for (int t = 0; t < kTries; ++t) {
    attempt(largest / (top * (kFirst + kStep * static_cast<float>(t))));
  }
  for (int round = 0; round < kRounds && attempt(best); ++round) {
  }
  return best;
}

// `levels(x, w, count, scale, v)`, `bottom` and `top` the smallest and largest magnitude, scales 1,
// 3, .. 2 `highest` + 1.
template <int kSubBlocks, typename Levels>
SuperFit<kSubBlocks> fit_octets(const float* x, const float* w, float bottom, float top,
                                int highest, const Levels& levels) {
  constexpr int kCount = kSuperBlock / kSubBlocks;
  std::array<float, kSubBlocks> wanted;
  for (int s = 0; s < kSubBlocks; ++s) {
    wanted[static_cast<size_t>(s)] =
        fit_octet_scale(x + s * kCount, w + s * kCount, kCount, bottom, top, levels);
  }
  const Multiplier multiplier = {1, 2, 0, highest};
  const float d = largest_of(wanted) / static_cast<float>(multiplier.of(highest));
  const auto at = [&](int first, int count, float scale, float* v) {
    return levels(x + first, w + first, count, scale, v);
  };
  return fit_super<kSubBlocks>(x, w, d, wanted, multiplier, at);
}

template <int kSubBlocks>
SuperFit<kSubBlocks> fit_iq2(const OctetGrid& grid, bool even, const float* x, const float* w) {
  return fit_octets<kSubBlocks>(
      x, w, kIq2Levels[0], kIq2Levels[2], 15,
      [&](const float* a, const float* b, int count, float scale, float* v) {
        return signed_levels(grid, even, a, b, count, scale, v);
      });
}

struct SignedEntry {
  unsigned entry = 0;
  unsigned signs = 0;  // bit j: element j is negative
};
SignedEntry signed_entry(const OctetGrid& grid, const float* v) {
  SignedEntry out;
  Octet magnitude;
  for (unsigned j = 0; j < kOctet; ++j) {
    magnitude[j] = std::fabs(v[j]);
    out.signs |= (std::signbit(v[j]) ? 1U : 0U) << j;
  }
  out.entry = grid.find(magnitude);
  return out;
}

struct TernaryEntry {
  unsigned entry = 0;
  bool negative_delta = false;
};
TernaryEntry ternary_entry(const float* v) {
  TernaryEntry out;
  out.negative_delta = v[0] < std::nearbyint(v[0]);
  const float delta = out.negative_delta ? -kIq1Delta : kIq1Delta;
  Octet t;
  for (unsigned j = 0; j < kOctet; ++j) t[j] = v[j] - delta;
  out.entry = iq1_grid().find(t);
  return out;
}

}  // namespace

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq2Xxs& b) {
  const auto f = fit_iq2<8>(iq2_xxs_grid(), true, x, w);
  b.d = f32_to_f16(f.d);
  for (size_t s = 0; s < 8; ++s) {
    uint32_t indices = 0;
    auto rest = static_cast<uint32_t>(f.scale[s]) << 28;
    for (unsigned g = 0; g < 4; ++g) {
      const SignedEntry e = signed_entry(iq2_xxs_grid(), f.v.data() + s * 32 + size_t{g} * 8);
      indices |= e.entry << (8 * g);
      rest |= (e.signs & 127U) << (7 * g);
    }
    std::memcpy(b.qs + 4 * s, &indices, sizeof indices);
    std::memcpy(b.qs + 4 * s + 2, &rest, sizeof rest);
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq2Xs& b) {
  const auto f = fit_iq2<16>(iq2_xs_grid(), true, x, w);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (size_t s = 0; s < 16; ++s) {
    b.scales[s / 2] |= static_cast<uint8_t>(f.scale[s] << (s % 2 * 4));
  }
  for (size_t g = 0; g < 32; ++g) {
    const SignedEntry e = signed_entry(iq2_xs_grid(), f.v.data() + g * 8);
    b.qs[g] = static_cast<uint16_t>(e.entry | (e.signs & 127U) << 9);
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq2S& b) {
  const auto f = fit_iq2<16>(iq2_s_grid(), false, x, w);
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (size_t s = 0; s < 16; ++s) {
    b.scales[s / 2] |= static_cast<uint8_t>(f.scale[s] << (s % 2 * 4));
  }
  for (size_t g = 0; g < 32; ++g) {
    const SignedEntry e = signed_entry(iq2_s_grid(), f.v.data() + g * 8);
    b.qs[g] = static_cast<uint8_t>(e.entry & 255U);
    b.signs[g] = static_cast<uint8_t>(e.signs);
    b.qh[g / 4] |= static_cast<uint8_t>((e.entry >> 8) << (g % 4 * 2));
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq1S& b) {
  const auto f =
      fit_octets<8>(x, w, 1 - kIq1Delta, 1 + kIq1Delta, 7,
                    [](const float* a, const float* c, int count, float scale, float* v) {
                      return ternary_levels(kBlock, a, c, count, scale, v);
                    });
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.d);
  for (size_t s = 0; s < 8; ++s) {
    auto rest = static_cast<unsigned>(f.scale[s]) << 12;
    for (size_t g = 0; g < 4; ++g) {
      const TernaryEntry e = ternary_entry(f.v.data() + s * 32 + g * 8);
      b.qs[s * 4 + g] = static_cast<uint8_t>(e.entry & 255U);
      rest |= (e.entry >> 8) << (3 * g);
      if (e.negative_delta) rest |= 0x8000U;
    }
    b.qh[s] = static_cast<uint16_t>(rest);
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq1M& b) {
  const auto f =
      fit_octets<16>(x, w, 1 - kIq1Delta, 1 + kIq1Delta, 7,
                     [](const float* a, const float* c, int count, float scale, float* v) {
                       return ternary_levels(kOctet, a, c, count, scale, v);
                     });
  std::memset(&b, 0, sizeof b);
  for (size_t g = 0; g < 32; ++g) {
    const TernaryEntry e = ternary_entry(f.v.data() + g * 8);
    b.qs[g] = static_cast<uint8_t>(e.entry & 255U);
    b.qh[g / 2] |=
        static_cast<uint8_t>((e.entry >> 8 | (e.negative_delta ? 8U : 0U)) << (g % 2 * 4));
  }
  // Four words: three bits of scale for each of four sub-blocks, and a nibble of d.
  const uint16_t d = f32_to_f16(f.d);
  for (size_t word = 0; word < 4; ++word) {
    unsigned packed = ((static_cast<unsigned>(d) >> (4 * word)) & 15U) << 12;
    for (size_t k = 0; k < 4; ++k) {
      packed |= static_cast<unsigned>(f.scale[4 * word + k]) << (3 * k);
    }
    b.scales[2 * word] = static_cast<uint8_t>(packed & 255U);
    b.scales[2 * word + 1] = static_cast<uint8_t>(packed >> 8);
  }
}

}  // namespace chimere::quant
