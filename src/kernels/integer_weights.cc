#include "kernels/integer_weights.h"

#include <cstring>

#include "quant/blocks.h"
#include "quant/codebooks.h"
#include "quant/quant.h"

namespace chimere::kernels {
namespace {

using quant::f16_to_f32;
using quant::kSuperBlock;

/// Blocks of 32: byte i % 16 holds element i, in its low nibble for i < 16.
unsigned half_block_nibble(const uint8_t* qs, int i) {
  return i < 16 ? qs[i] & 15U : qs[i - 16] >> 4U;
}
int fifth_bit(const uint8_t* qh, int i) { return ((qh[i / 8] >> (i % 8)) & 1) << 4; }

template <class Value>
void fill(int8_t* q, int n, Value value) {
  for (int i = 0; i < n; ++i) q[i] = static_cast<int8_t>(value(i));
}

void unpack(const quant::BlockQ4_0& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, 32, [&](int i) { return static_cast<int>(half_block_nibble(b.qs, i)) - 8; });
  s[0] = f16_to_f32(b.d);
}

void unpack(const quant::BlockQ4_1& b, int8_t* q, float* s, float* m) {
  fill(q, 32, [&](int i) { return half_block_nibble(b.qs, i); });
  s[0] = f16_to_f32(b.d);
  m[0] = -f16_to_f32(b.m);
}

void unpack(const quant::BlockQ5_0& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, 32, [&](int i) {
    return static_cast<int>(half_block_nibble(b.qs, i)) + fifth_bit(b.qh, i) - 16;
  });
  s[0] = f16_to_f32(b.d);
}

void unpack(const quant::BlockQ5_1& b, int8_t* q, float* s, float* m) {
  fill(q, 32,
       [&](int i) { return static_cast<int>(half_block_nibble(b.qs, i)) + fifth_bit(b.qh, i); });
  s[0] = f16_to_f32(b.d);
  m[0] = -f16_to_f32(b.m);
}

void unpack(const quant::BlockQ8_0& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, 32, [&](int i) { return b.qs[i]; });
  s[0] = f16_to_f32(b.d);
}

void unpack(const quant::BlockMxfp4& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, 32, [&](int i) { return quant::kMxfp4Values[half_block_nibble(b.qs, i)]; });
  s[0] = quant::half_e8m0(b.e);
}

void unpack(const quant::BlockIq4Nl& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, 32, [&](int i) { return quant::kIq4NlValues[half_block_nibble(b.qs, i)]; });
  s[0] = f16_to_f32(b.d);
}

void unpack(const quant::BlockIq4Xs& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, kSuperBlock,
       [&](int i) { return quant::kIq4NlValues[half_block_nibble(b.qs + i / 32 * 16, i % 32)]; });
  for (int g = 0; g < 8; ++g) {
    s[g] = f16_to_f32(b.d) * static_cast<float>(quant::iq4_xs_scale(b, g));
  }
}

/// Q2_K and Q3_K: of each 128 elements, byte l of 32 holds elements l, 32 + l, 64 + l, 96 + l.
int two_bits(const uint8_t* qs, int i) {
  return (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

void unpack(const quant::BlockQ2K& b, int8_t* q, float* s, float* m) {
  fill(q, kSuperBlock, [&](int i) { return two_bits(b.qs, i); });
  for (int g = 0; g < 16; ++g) {
    s[g] = f16_to_f32(b.d) * static_cast<float>(b.scales[g] & 15);
    m[g] = f16_to_f32(b.dmin) * static_cast<float>(b.scales[g] >> 4);
  }
}

void unpack(const quant::BlockQ3K& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, kSuperBlock, [&](int i) {
    const int third = (b.hmask[i % 32] >> (i / 32)) & 1;
    return two_bits(b.qs, i) + 4 * third - 4;
  });
  for (int g = 0; g < 16; ++g) {
    s[g] = f16_to_f32(b.d) * static_cast<float>(quant::q3_scale(b.scales, g));
  }
}

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
void unpack_scales(const Block& b, float* s, float* m) {
  for (int g = 0; g < 8; ++g) {
    const quant::ScaleMin sm = quant::scale_min(b.scales, g);
    s[g] = f16_to_f32(b.d) * static_cast<float>(sm.scale);
    m[g] = f16_to_f32(b.dmin) * static_cast<float>(sm.min);
  }
}

/// Nibbles of Q4_K and Q5_K: 32 bytes hold the low, then the high nibbles of two scale groups.
int nibble(const uint8_t* qs, int i) {
  const int byte = qs[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

void unpack(const quant::BlockQ4K& b, int8_t* q, float* s, float* m) {
  fill(q, kSuperBlock, [&](int i) { return nibble(b.qs, i); });
  unpack_scales(b, s, m);
}

void unpack(const quant::BlockQ5K& b, int8_t* q, float* s, float* m) {
  fill(q, kSuperBlock,
       [&](int i) { return nibble(b.qs, i) + 16 * ((b.qh[i % 32] >> (i / 32)) & 1); });
  unpack_scales(b, s, m);
}

void unpack(const quant::BlockQ6K& b, int8_t* q, float* s, float* /*m*/) {
  fill(q, kSuperBlock, [&](int i) {
    // Of each 128 elements: the low nibbles of 64 bytes, then their high nibbles; the upper two
    // bits are in 32 bytes.
    const int half = i / 128;
    const int byte = b.ql[half * 64 + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    const int top = (b.qh[half * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    return low + 16 * top - 32;
  });
  for (int g = 0; g < 16; ++g) s[g] = f16_to_f32(b.d) * static_cast<float>(b.scales[g]);
}

uint32_t load_u32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// The elements of one grid entry, negated where `signs` has a one.
template <class Entry>
void put_entry(Entry entry, unsigned signs, int8_t* q) {
  for (unsigned j = 0; j < sizeof(Entry); ++j) {
    const auto magnitude = static_cast<int8_t>(entry >> (8 * j));
    q[j] = static_cast<int8_t>(((signs >> j) & 1U) != 0 ? -magnitude : magnitude);
  }
}

/// Element j of an IQ1 entry becomes 8 (element ± 1/8).
void put_ternary(uint64_t entry, bool negative_delta, int8_t* q) {
  for (unsigned j = 0; j < 8; ++j) {
    const auto element = static_cast<int8_t>(entry >> (8 * j));
    q[j] = static_cast<int8_t>(8 * element + (negative_delta ? -1 : 1));
  }
}

/// d · (1 + 2 scale) · unit, for units that are powers of two.
float odd_scale(uint16_t d, unsigned scale, float unit) {
  return f16_to_f32(d) * static_cast<float>(1 + 2 * scale) * unit;
}

void unpack(const quant::BlockIq2Xxs& b, int8_t* q, float* s, float* /*m*/) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t indices = load_u32(b.qs + 4 * g);
    const uint32_t rest = load_u32(b.qs + 4 * g + 2);
    for (int e = 0; e < 4; ++e) {
      put_entry(quant::kIq2XxsGrid[(indices >> (8 * e)) & 255U],
                quant::even_signs((rest >> (7 * e)) & 127U), q + 32 * g + 8 * e);
    }
    s[g] = odd_scale(b.d, rest >> 28, 0.125F);
  }
}

/// Scales of IQ2_XS and IQ2_S: a nibble for 16 elements.
template <class Block>
void unpack_iq2_scales(const Block& b, float* s) {
  for (int g = 0; g < 16; ++g) {
    s[g] = odd_scale(b.d, (b.scales[g / 2] >> (g % 2 * 4)) & 15U, 0.125F);
  }
}

void unpack(const quant::BlockIq2Xs& b, int8_t* q, float* s, float* /*m*/) {
  for (int e = 0; e < 32; ++e) {
    put_entry(quant::kIq2XsGrid[b.qs[e] & 511U], quant::even_signs(b.qs[e] >> 9), q + 8 * e);
  }
  unpack_iq2_scales(b, s);
}

void unpack(const quant::BlockIq2S& b, int8_t* q, float* s, float* /*m*/) {
  for (int e = 0; e < 32; ++e) {
    const unsigned high = (b.qh[e / 4] >> (e % 4 * 2)) & 3U;
    put_entry(quant::kIq2SGrid[b.qs[e] | (high << 8)], b.signs[e], q + 8 * e);
  }
  unpack_iq2_scales(b, s);
}

void unpack(const quant::BlockIq3Xxs& b, int8_t* q, float* s, float* /*m*/) {
  for (int g = 0; g < 8; ++g) {
    const uint32_t rest = load_u32(b.scales_and_signs + 4 * g);
    for (int e = 0; e < 8; ++e) {
      const unsigned signs = quant::even_signs((rest >> (e / 2 * 7)) & 127U);
      put_entry(quant::kIq3XxsGrid[b.qs[8 * g + e]], signs >> (e % 2 * 4), q + 32 * g + 4 * e);
    }
    s[g] = odd_scale(b.d, rest >> 28, 0.25F);
  }
}

void unpack(const quant::BlockIq3S& b, int8_t* q, float* s, float* /*m*/) {
  for (int e = 0; e < 64; ++e) {
    const unsigned high = (b.qh[e / 8] >> (e % 8)) & 1U;
    put_entry(quant::kIq3SGrid[b.qs[e] | (high << 8)],
              static_cast<unsigned>(b.signs[e / 2]) >> (e % 2 * 4), q + 4 * e);
  }
  for (int g = 0; g < 8; ++g) {
    s[g] = odd_scale(b.d, (b.scales[g / 2] >> (g % 2 * 4)) & 15U, 1.0F);
  }
}

void unpack(const quant::BlockIq1S& b, int8_t* q, float* s, float* /*m*/) {
  for (int g = 0; g < 8; ++g) {
    const unsigned rest = b.qh[g];
    for (int e = 0; e < 4; ++e) {
      const unsigned high = (rest >> (3 * e)) & 7U;
      put_ternary(quant::kIq1Grid[b.qs[4 * g + e] | (high << 8)], (rest & 0x8000U) != 0,
                  q + 32 * g + 8 * e);
    }
    s[g] = odd_scale(b.d, (rest >> 12) & 7U, quant::kIq1Delta);
  }
}

void unpack(const quant::BlockIq1M& b, int8_t* q, float* s, float* /*m*/) {
  for (int e = 0; e < 32; ++e) {
    const unsigned high = (b.qh[e / 2] >> (e % 2 * 4)) & 15U;
    put_ternary(quant::kIq1Grid[b.qs[e] | ((high & 7U) << 8)], (high & 8U) != 0, q + 8 * e);
  }
  for (int g = 0; g < 16; ++g) {
    s[g] = odd_scale(quant::iq1_m_scale(b), quant::iq1_m_step(b, g), quant::kIq1Delta);
  }
}

template <class Block>
void unpack_ternary(const Block& b, int8_t* q, float* s) {
  fill(q, kSuperBlock, [&](int i) { return quant::ternary(b, i); });
  for (int g = 0; g < 8; ++g) s[g] = f16_to_f32(b.d);
}
void unpack(const quant::BlockTq10& b, int8_t* q, float* s, float* /*m*/) {
  unpack_ternary(b, q, s);
}
void unpack(const quant::BlockTq20& b, int8_t* q, float* s, float* /*m*/) {
  unpack_ternary(b, q, s);
}

template <class Block, class Values>
void unpack_iqk(const Block& b, const Values& values, int shift, int8_t* q, float* s) {
  fill(q, kSuperBlock, [&](int i) {
    return values[quant::iqk_index(b, i)] + (((b.extra >> (i / 16)) & 1) != 0 ? shift : 0);
  });
  for (int g = 0; g < 16; ++g) {
    s[g] = f16_to_f32(b.d) * static_cast<float>(quant::iqk_scale(b, g));
  }
}
void unpack(const quant::BlockIq2K& b, int8_t* q, float* s, float* /*m*/) {
  unpack_iqk(b, quant::kIq2KValues, quant::kIq2KShift, q, s);
}
void unpack(const quant::BlockIq3K& b, int8_t* q, float* s, float* /*m*/) {
  unpack_iqk(b, quant::kIq3KValues, quant::kIq3KShift, q, s);
}
void unpack(const quant::BlockIq4K& b, int8_t* q, float* s, float* /*m*/) {
  unpack_iqk(b, quant::kIq4NlValues, quant::kIq4KShift, q, s);
}
void unpack(const quant::BlockIq5K& b, int8_t* q, float* s, float* /*m*/) {
  unpack_iqk(b, quant::kIq5KValues, quant::kIq5KShift, q, s);
}

template <class Block>
void unpack_row(const uint8_t* row, int elements, int groups, int64_t n, int8_t* q, float* s,
                float* m) {
  const auto* block = reinterpret_cast<const Block*>(row);
  for (int64_t i = 0; i < n; i += elements, ++block, q += elements, s += groups, m += groups) {
    for (int g = 0; g < groups; ++g) m[g] = 0;
    unpack(*block, q, s, m);
  }
}

}  // namespace

void unpack_integer_weights(DType type, const uint8_t* row, int64_t n, int8_t* q, float* s,
                            float* m) {
  switch (type) {
    case DType::kQ4_0:
      return unpack_row<quant::BlockQ4_0>(row, 32, 1, n, q, s, m);
    case DType::kQ4_1:
      return unpack_row<quant::BlockQ4_1>(row, 32, 1, n, q, s, m);
    case DType::kQ5_0:
      return unpack_row<quant::BlockQ5_0>(row, 32, 1, n, q, s, m);
    case DType::kQ5_1:
      return unpack_row<quant::BlockQ5_1>(row, 32, 1, n, q, s, m);
    case DType::kQ8_0:
      return unpack_row<quant::BlockQ8_0>(row, 32, 1, n, q, s, m);
    case DType::kMXFP4:
      return unpack_row<quant::BlockMxfp4>(row, 32, 1, n, q, s, m);
    case DType::kIQ4_NL:
      return unpack_row<quant::BlockIq4Nl>(row, 32, 1, n, q, s, m);
    case DType::kIQ4_XS:
      return unpack_row<quant::BlockIq4Xs>(row, 256, 8, n, q, s, m);
    case DType::kQ2_K:
      return unpack_row<quant::BlockQ2K>(row, 256, 16, n, q, s, m);
    case DType::kQ3_K:
      return unpack_row<quant::BlockQ3K>(row, 256, 16, n, q, s, m);
    case DType::kQ4_K:
      return unpack_row<quant::BlockQ4K>(row, 256, 8, n, q, s, m);
    case DType::kQ5_K:
      return unpack_row<quant::BlockQ5K>(row, 256, 8, n, q, s, m);
    case DType::kQ6_K:
      return unpack_row<quant::BlockQ6K>(row, 256, 16, n, q, s, m);
    case DType::kIQ1_S:
      return unpack_row<quant::BlockIq1S>(row, 256, 8, n, q, s, m);
    case DType::kIQ1_M:
      return unpack_row<quant::BlockIq1M>(row, 256, 16, n, q, s, m);
    case DType::kIQ2_XXS:
      return unpack_row<quant::BlockIq2Xxs>(row, 256, 8, n, q, s, m);
    case DType::kIQ2_XS:
      return unpack_row<quant::BlockIq2Xs>(row, 256, 16, n, q, s, m);
    case DType::kIQ2_S:
      return unpack_row<quant::BlockIq2S>(row, 256, 16, n, q, s, m);
    case DType::kIQ3_XXS:
      return unpack_row<quant::BlockIq3Xxs>(row, 256, 8, n, q, s, m);
    case DType::kIQ3_S:
      return unpack_row<quant::BlockIq3S>(row, 256, 8, n, q, s, m);
    case DType::kTQ1_0:
      return unpack_row<quant::BlockTq10>(row, 256, 8, n, q, s, m);
    case DType::kTQ2_0:
      return unpack_row<quant::BlockTq20>(row, 256, 8, n, q, s, m);
    case DType::kIQ2_K:
      return unpack_row<quant::BlockIq2K>(row, 256, 16, n, q, s, m);
    case DType::kIQ3_K:
      return unpack_row<quant::BlockIq3K>(row, 256, 16, n, q, s, m);
    case DType::kIQ4_K:
      return unpack_row<quant::BlockIq4K>(row, 256, 16, n, q, s, m);
    case DType::kIQ5_K:
      return unpack_row<quant::BlockIq5K>(row, 256, 16, n, q, s, m);
    default:
      return;
  }
}

}  // namespace chimere::kernels
