// The formats with blocks of 32, and IQ4_XS, which has nibbles like theirs, with NEON.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/cpu/codebook_tables.h"
#include "kernels/cpu/neon/bytes.h"
#include "kernels/cpu/neon/integer_product.h"
#include "kernels/cpu/neon/kernels.h"
#include "quant/blocks.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

template <class Block>
CHIMERE_INLINE void scales_of_eight(const Block* b, float* s) {
  for (int i = 0; i < 8; ++i) s[i] = widen_f16(b[i].d);
}

/// For x = d q + m: scales d and minima -m.
template <class Block>
CHIMERE_INLINE void scales_minima_of_eight(const Block* b, float* s, float* m) {
  for (int i = 0; i < 8; ++i) {
    s[i] = widen_f16(b[i].d);
    m[i] = -widen_f16(b[i].m);
  }
}

struct Q40 : Layout<DType::kQ4_0, quant::BlockQ4_0, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t q = vld1q_u8(at(p)[i].qs);
      v[2 * i] = less(low_nibbles(q), 8);
      v[2 * i + 1] = less(high_nibbles(q), 8);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    scales_of_eight(at(p), s);
  }
};

struct Q41 : Layout<DType::kQ4_1, quant::BlockQ4_1, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t q = vld1q_u8(at(p)[i].qs);
      v[2 * i] = as_signed(low_nibbles(q));
      v[2 * i + 1] = as_signed(high_nibbles(q));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* m) {
    scales_minima_of_eight(at(p), s, m);
  }
};

/// Nibbles with the fifth bits of Q5_0 and Q5_1, less `bias`.
template <class Block>
CHIMERE_INLINE void five_bits(const Block& b, int8_t bias, int8x16_t v[2]) {
  const uint8x16_t q = vld1q_u8(b.qs);
  const uint8x16_t sixteen = vdupq_n_u8(16);
  const uint8x16_t low = vandq_u8(bytes_of_bits(b.qh[0], b.qh[1]), sixteen);
  const uint8x16_t high = vandq_u8(bytes_of_bits(b.qh[2], b.qh[3]), sixteen);
  v[0] = less(vorrq_u8(low_nibbles(q), low), bias);
  v[1] = less(vorrq_u8(high_nibbles(q), high), bias);
}

struct Q50 : Layout<DType::kQ5_0, quant::BlockQ5_0, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 8; ++i) five_bits(at(p)[i], 16, v + 2 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    scales_of_eight(at(p), s);
  }
};

struct Q51 : Layout<DType::kQ5_1, quant::BlockQ5_1, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 8; ++i) five_bits(at(p)[i], 0, v + 2 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* m) {
    scales_minima_of_eight(at(p), s, m);
  }
};

struct Q80 : Layout<DType::kQ8_0, quant::BlockQ8_0, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 16; ++i) v[i] = vld1q_s8(at(p)[i / 2].qs + i % 2 * 16);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    scales_of_eight(at(p), s);
  }
};

/// A table's values at the nibbles of 16 bytes.
CHIMERE_INLINE void values_of_nibbles(int8x16_t table, const uint8_t* qs, int8x16_t v[2]) {
  const uint8x16_t q = vld1q_u8(qs);
  v[0] = vqtbl1q_s8(table, low_nibbles(q));
  v[1] = vqtbl1q_s8(table, high_nibbles(q));
}

struct Mxfp4 : Layout<DType::kMXFP4, quant::BlockMxfp4, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const int8x16_t table =
        vsubq_s8(vld1q_s8(kMxfp4Bytes.entry), vdupq_n_s8(1 << kMxfp4OffsetBits));
    for (int i = 0; i < 8; ++i) values_of_nibbles(table, at(p)[i].qs, v + 2 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int i = 0; i < 8; ++i) {
      // quant::half_e8m0()
      const uint32_t e = at(p)[i].e;
      const uint32_t bits = e > 1 ? (e - 1) << 23 : 0x00200000U << e;
      s[i] = __builtin_bit_cast(float, bits);
    }
  }
};

struct Iq4Nl : Layout<DType::kIQ4_NL, quant::BlockIq4Nl, 8> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const int8x16_t table = vld1q_s8(kIq4Values.entry);
    for (int i = 0; i < 8; ++i) values_of_nibbles(table, at(p)[i].qs, v + 2 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    scales_of_eight(at(p), s);
  }
};

struct Iq4Xs : Layout<DType::kIQ4_XS, quant::BlockIq4Xs, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const int8x16_t table = vld1q_s8(kIq4Values.entry);
    for (int i = 0; i < 8; ++i) values_of_nibbles(table, at(p)->qs + 16 * i, v + 2 * i);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    const Block* b = at(p);
    const float d = widen_f16(b->d);
    for (int g = 0; g < 8; ++g) {
      const int low = b->scales_l[g / 2] >> (g % 2 * 4) & 15;
      const int high = b->scales_h >> (2 * g) & 3;
      s[g] = d * static_cast<float>((low | high << 4) - 32);
    }
  }
};

}  // namespace

template <>
void product<DType::kQ4_0>(const IntegerProduct& p) {
  integer_product<Q40>(p);
}
template <>
void product<DType::kQ4_1>(const IntegerProduct& p) {
  integer_product<Q41>(p);
}
template <>
void product<DType::kQ5_0>(const IntegerProduct& p) {
  integer_product<Q50>(p);
}
template <>
void product<DType::kQ5_1>(const IntegerProduct& p) {
  integer_product<Q51>(p);
}
template <>
void product<DType::kQ8_0>(const IntegerProduct& p) {
  integer_product<Q80>(p);
}
template <>
void product<DType::kMXFP4>(const IntegerProduct& p) {
  integer_product<Mxfp4>(p);
}
template <>
void product<DType::kIQ4_NL>(const IntegerProduct& p) {
  integer_product<Iq4Nl>(p);
}
template <>
void product<DType::kIQ4_XS>(const IntegerProduct& p) {
  integer_product<Iq4Xs>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
