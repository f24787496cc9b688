// IQ2_K to IQ5_K: sub-blocks of 16 with an integer scale and one of two tables of values, which
// differ by a constant.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "quant/clones.h"
#include "quant/codebooks.h"
#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"
#include "quant/super_fit.h"

namespace chimere::quant {
namespace {

constexpr int kTableSub = 16;
constexpr int kTableSubs = kSuperBlock / kTableSub;

// Values of a format, rising, plus `kAdded`; constants, so that searches for the nearest vectorise.
template <const auto& kValues, int kAdded>
struct ValueTable {
  static constexpr size_t kSteps = kValues.size() - 1;
  static constexpr float value(size_t i) { return static_cast<float>(kValues[i] + kAdded); }
  static constexpr float middle(size_t i) { return 0.5F * (value(i) + value(i + 1)); }

  static size_t nearest(float v) {
    size_t i = 0;
    for (size_t k = 0; k < kSteps; ++k) i += v > middle(k) ? 1 : 0;
    return i;
  }
  /// The nearest value, as a sum of steps.
  static float level(float v) { return level(v, std::make_index_sequence<kSteps>{}); }

 private:
  template <size_t... kIndices>
  static float level(float v, std::index_sequence<kIndices...> /*indices*/) {
    float l = value(0);
    ((l += static_cast<float>(v > middle(kIndices)) * (value(kIndices + 1) - value(kIndices))),
     ...);
    return l;
  }
};

struct IqkFit {
  SuperFit<kTableSubs> super;
  uint16_t extra = 0;
  std::array<uint8_t, kSuperBlock> index{};
};

// The scale of a sub-block, and the error with it.
struct TableScale {
  float d = 0;
  float error = 0;
};
template <class Table>
TableScale table_scale(const float* x, const float* w) {
  float v[kTableSub];
  const float d = fit_scale(x, w, kTableSub, Table::value(0), Table::value(Table::kSteps),
                            [](float y) { return Table::level(y); });
  return {d, put_levels(
                 x, w, kTableSub, d, [](float y) { return Table::level(y); }, v)};
}

template <class Table>
float table_levels(const float* x, const float* w, float d, float* v) {
  return put_levels(
      x, w, kTableSub, d, [](float y) { return Table::level(y); }, v);
}

template <const auto& kValues, int kShift>
IqkFit fit_iqk(const float* x, const float* w, Multiplier multiplier) {
  using First = ValueTable<kValues, 0>;
  using Second = ValueTable<kValues, kShift>;
  std::array<float, kTableSub> other;
  std::array<float, kTableSubs> wanted;
  for (int s = 0; s < kTableSubs; ++s) {
    const int at = s * kTableSub;
    const TableScale first = table_scale<First>(x + at, w + at);
    const TableScale second = table_scale<Second>(x + at, w + at);
    wanted[static_cast<size_t>(s)] = second.error < first.error ? second.d : first.d;
  }
  const auto levels = [&](int first, int /*count*/, float scale, float* v) {
    const float error = table_levels<First>(x + first, w + first, scale, v);
    const float shifted = table_levels<Second>(x + first, w + first, scale, other.data());
    if (shifted < error) std::copy(other.begin(), other.end(), v);
    return double{std::min(error, shifted)};
  };
  IqkFit fit;
  const auto longest = static_cast<float>(multiplier.of(multiplier.lo));
  fit.super = fit_super<kTableSubs>(x, w, largest_of(wanted) / longest, wanted, multiplier, levels);
  for (int s = 0; s < kTableSubs; ++s) {
    const int at = s * kTableSub;
    const float scale =
        fit.super.d * static_cast<float>(multiplier.of(fit.super.scale[static_cast<size_t>(s)]));
    const float error = table_levels<First>(x + at, w + at, scale, other.data());
    const bool second = table_levels<Second>(x + at, w + at, scale, other.data()) < error;
    if (second) fit.extra = static_cast<uint16_t>(fit.extra | 1U << s);
    const float id = inverse(scale);
    for (int i = at; i < at + kTableSub; ++i) {
      const size_t nearest = second ? Second::nearest(x[i] * id) : First::nearest(x[i] * id);
      fit.index[static_cast<size_t>(i)] = static_cast<uint8_t>(nearest);
    }
  }
  return fit;
}

// The two low bits as Q2_K stores them.
void pack_low_pairs(const IqkFit& f, uint8_t* qs) {
  std::memset(qs, 0, kSuperBlock / 4);
  for (int i = 0; i < kSuperBlock; ++i) {
    const unsigned pair = f.index[static_cast<size_t>(i)] & 3U;
    qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(pair << (i % 128 / 32 * 2));
  }
}

// Bit `bit` of the indices: bit i of qh[l] belongs to element 32 i + l.
void pack_high_bits(const IqkFit& f, int bit, uint8_t* qh) {
  std::memset(qh, 0, kSuperBlock / 8);
  for (int i = 0; i < kSuperBlock; ++i) {
    const unsigned high = (f.index[static_cast<size_t>(i)] >> bit) & 1U;
    qh[i % 32] |= static_cast<uint8_t>(high << (i / 32));
  }
}

// The scales of IQ4_K and IQ5_K.
template <class Block>
void pack_six_bit_scales(const IqkFit& f, Block& b) {
  std::memset(b.scales_l, 0, sizeof b.scales_l);
  std::memset(b.scales_h, 0, sizeof b.scales_h);
  for (int s = 0; s < kTableSubs; ++s) {
    const int scale = f.super.scale[static_cast<size_t>(s)] + 32;
    b.scales_l[s / 2] |= static_cast<uint8_t>((scale & 15) << (s % 2 * 4));
    b.scales_h[s / 4] |= static_cast<uint8_t>((scale >> 4) << (s % 4 * 2));
  }
}

}  // namespace

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq2K& b) {
  const IqkFit f = fit_iqk<kIq2KValues, kIq2KShift>(x, w, Multiplier{0, 1, -8, 7});
  b.d = f32_to_f16(f.super.d);
  b.extra = f.extra;
  for (size_t s = 0; s < kTableSubs; s += 2) {
    b.scales[s / 2] =
        static_cast<uint8_t>((f.super.scale[s] + 8) | (f.super.scale[s + 1] + 8) << 4);
  }
  pack_low_pairs(f, b.qs);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq3K& b) {
  // Scales -16..-1 stand for -31, -29, .. -1.
  const IqkFit f = fit_iqk<kIq3KValues, kIq3KShift>(x, w, Multiplier{1, 2, -16, 15});
  std::memset(&b, 0, sizeof b);
  b.d = f32_to_f16(f.super.d);
  b.extra = f.extra;
  for (int s = 0; s < kTableSubs; ++s) {
    const int odd = 1 + 2 * f.super.scale[static_cast<size_t>(s)];
    if (odd < 0) b.scales_h = static_cast<uint16_t>(b.scales_h | 1U << s);
    b.scales_l[s / 2] |= static_cast<uint8_t>((std::abs(odd) - 1) / 2 << (s % 2 * 4));
  }
  pack_low_pairs(f, b.qs);
  pack_high_bits(f, 2, b.qh);
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq4K& b) {
  const IqkFit f = fit_iqk<kIq4NlValues, kIq4KShift>(x, w, Multiplier{0, 1, -32, 31});
  b.d = f32_to_f16(f.super.d);
  b.extra = f.extra;
  pack_six_bit_scales(f, b);
  for (size_t i = 0; i < kSuperBlock / 2; ++i) {
    const size_t at = i / 16 * 32 + i % 16;
    b.qs[i] = static_cast<uint8_t>(f.index[at] | f.index[at + 16] << 4);
  }
}

CHIMERE_CLONES void encode_block(const float* x, const float* w, BlockIq5K& b) {
  const IqkFit f = fit_iqk<kIq5KValues, kIq5KShift>(x, w, Multiplier{0, 1, -32, 31});
  b.d = f32_to_f16(f.super.d);
  b.extra = f.extra;
  pack_six_bit_scales(f, b);
  for (size_t i = 0; i < kSuperBlock / 2; ++i) {
    const size_t at = i / 32 * 64 + i % 32;
    b.qs[i] = static_cast<uint8_t>((f.index[at] & 15) | (f.index[at + 32] & 15) << 4);
  }
  pack_high_bits(f, 4, b.qh);
}

}  // namespace chimere::quant
