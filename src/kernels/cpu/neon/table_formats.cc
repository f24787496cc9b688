// The ternary formats and IQ2_K to IQ5_K with NEON.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/cpu/codebook_tables.h"
#include "kernels/cpu/neon/bytes.h"
#include "kernels/cpu/neon/integer_product.h"
#include "kernels/cpu/neon/kernels.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// The first digits of base-3 fractions less 1: a byte q has the digit floor(3 q / 256).
CHIMERE_INLINE int8x16_t ternary_of(uint8x16_t q) {
  const uint8x16_t digit = vaddq_u8(vshrq_n_u8(vcgeq_u8(q, vdupq_n_u8(86)), 7),
                                    vshrq_n_u8(vcgeq_u8(q, vdupq_n_u8(171)), 7));
  return less(digit, 1);
}
CHIMERE_INLINE uint8x16_t three_times(uint8x16_t q) { return vaddq_u8(q, vaddq_u8(q, q)); }

CHIMERE_INLINE void unpack_ternary(const quant::BlockTq10& b, int8x16_t v[16]) {
  for (int i = 0; i < 3; ++i) {
    uint8x16_t q = vld1q_u8(b.qs + 16 * i);
    for (int n = 0; n < 5; ++n) {
      v[i < 2 ? 2 * n + i : 10 + n] = ternary_of(q);
      q = three_times(q);
    }
  }
  const uint32x4_t powers = {1, 3, 9, 27};
  const uint8x16_t power = vreinterpretq_u8_u32(vmulq_n_u32(powers, 0x01010101U));
  const uint8x16_t four = vreinterpretq_u8_u32(vdupq_n_u32(load<uint32_t>(b.qh)));
  v[15] = ternary_of(vmulq_u8(four, power));
}

/// Two bits of each element, 16-element groups: of each 128, byte l of 32 holds elements l, 32 + l,
/// 64 + l, 96 + l.
CHIMERE_INLINE void unpack_pairs(const uint8_t* qs, uint8x16_t v[16]) {
  const uint8x16_t three = vdupq_n_u8(3);
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t q = vld1q_u8(qs + 16 * i);
    uint8x16_t* out = v + i / 2 * 8 + i % 2;
    out[0] = vandq_u8(q, three);
    out[2] = vandq_u8(vshrq_n_u8(q, 2), three);
    out[4] = vandq_u8(vshrq_n_u8(q, 4), three);
    out[6] = vshrq_n_u8(q, 6);
  }
}

CHIMERE_INLINE void unpack_ternary(const quant::BlockTq20& b, int8x16_t v[16]) {
  uint8x16_t q[16];
  unpack_pairs(b.qs, q);
  for (int i = 0; i < 16; ++i) v[i] = less(q[i], 1);
}

/// Adds `value` where bit i / 2 of the element's byte is set.
CHIMERE_INLINE void add_high_bits(const uint8_t* qh, uint8_t value, uint8x16_t v[16]) {
  const uint8x16_t bytes[2] = {vld1q_u8(qh), vld1q_u8(qh + 16)};
  for (int i = 0; i < 16; ++i) {
    const uint8x16_t set = vtstq_u8(bytes[i % 2], vdupq_n_u8(static_cast<uint8_t>(1U << (i / 2))));
    v[i] = vorrq_u8(v[i], vandq_u8(set, vdupq_n_u8(value)));
  }
}

CHIMERE_INLINE void look_up(const int8_t* table, const uint8x16_t q[16], int8x16_t v[16]) {
  const int8x16_t values = vld1q_s8(table);
  for (int i = 0; i < 16; ++i) v[i] = vqtbl1q_s8(values, q[i]);
}

CHIMERE_INLINE int values_of(const quant::BlockIq2K& b, int8x16_t v[16]) {
  uint8x16_t q[16];
  unpack_pairs(b.qs, q);
  look_up(kIq2KTable.entry, q, v);
  return quant::kIq2KShift;
}
CHIMERE_INLINE int values_of(const quant::BlockIq3K& b, int8x16_t v[16]) {
  uint8x16_t q[16];
  unpack_pairs(b.qs, q);
  add_high_bits(b.qh, 4, q);
  look_up(kIq3KTable.entry, q, v);
  return quant::kIq3KShift;
}
CHIMERE_INLINE int values_of(const quant::BlockIq4K& b, int8x16_t v[16]) {
  uint8x16_t q[16];
  for (int i = 0; i < 8; ++i) {
    const uint8x16_t both = vld1q_u8(b.qs + 16 * i);
    q[2 * i] = low_nibbles(both);
    q[2 * i + 1] = high_nibbles(both);
  }
  look_up(kIq4Values.entry, q, v);
  return quant::kIq4KShift;
}
CHIMERE_INLINE int values_of(const quant::BlockIq5K& b, int8x16_t v[16]) {
  uint8x16_t q[16];
  for (int i = 0; i < 8; ++i) {
    const uint8x16_t both = vld1q_u8(b.qs + 16 * i);
    uint8x16_t* out = q + i / 2 * 4 + i % 2;
    out[0] = low_nibbles(both);
    out[2] = high_nibbles(both);
  }
  add_high_bits(b.qh, 16, q);
  const int8x16x2_t values = {{vld1q_s8(kIq5KTable.entry), vld1q_s8(kIq5KTable.entry + 16)}};
  for (int i = 0; i < 16; ++i) v[i] = vqtbl2q_s8(values, q[i]);
  return quant::kIq5KShift;
}

template <DType kType, class Block>
struct Ternary : Layout<kType, Block, 1> {
  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    unpack_ternary(block(p), v);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int g = 0; g < 8; ++g) s[g] = widen_f16(block(p).d);
  }
};

template <DType kType, class Block>
struct Table : Layout<kType, Block, 1> {
  CHIMERE_INLINE static const Block& block(const uint8_t* p) {
    return *reinterpret_cast<const Block*>(p);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const int shift = values_of(block(p), v);
    for (int i = 0; i < 16; ++i) {
      const int added = ((block(p).extra >> i) & 1) != 0 ? shift : 0;
      v[i] = vaddq_s8(v[i], vdupq_n_s8(static_cast<int8_t>(added)));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    const float d = widen_f16(block(p).d);
    for (int g = 0; g < 16; ++g) s[g] = d * static_cast<float>(quant::iqk_scale(block(p), g));
  }
};

}  // namespace

template <>
void product<DType::kTQ1_0>(const IntegerProduct& p) {
  integer_product<Ternary<DType::kTQ1_0, quant::BlockTq10>>(p);
}
template <>
void product<DType::kTQ2_0>(const IntegerProduct& p) {
  integer_product<Ternary<DType::kTQ2_0, quant::BlockTq20>>(p);
}
template <>
void product<DType::kIQ2_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ2_K, quant::BlockIq2K>>(p);
}
template <>
void product<DType::kIQ3_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ3_K, quant::BlockIq3K>>(p);
}
template <>
void product<DType::kIQ4_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ4_K, quant::BlockIq4K>>(p);
}
template <>
void product<DType::kIQ5_K>(const IntegerProduct& p) {
  integer_product<Table<DType::kIQ5_K, quant::BlockIq5K>>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
