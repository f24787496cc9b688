// The K-quants with NEON.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/cpu/neon/bytes.h"
#include "kernels/cpu/neon/integer_product.h"
#include "kernels/cpu/neon/kernels.h"
#include "quant/blocks.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// Bits 2 k and 2 k + 1 of bytes.
template <int k>
CHIMERE_INLINE uint8x16_t two_bits(uint8x16_t q) {
  const uint8x16_t shifted = k == 0 ? q : vshrq_n_u8(q, k == 0 ? 1 : 2 * k);
  return vandq_u8(shifted, vdupq_n_u8(3));
}

/// Of 256 weights of two bits, 16-element groups: of each 128, byte l of 32 holds elements l, 32 +
/// l, 64 + l, 96 + l.
CHIMERE_INLINE void all_two_bits(const uint8_t* qs, uint8x16_t v[16]) {
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t q = vld1q_u8(qs + 32 * half + 16 * i);
      uint8x16_t* out = v + 8 * half + i;
      out[0] = two_bits<0>(q);
      out[2] = two_bits<1>(q);
      out[4] = two_bits<2>(q);
      out[6] = two_bits<3>(q);
    }
  }
}

struct Q2K : Layout<DType::kQ2_K, quant::BlockQ2K, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    uint8x16_t q[16];
    all_two_bits(at(p)->qs, q);
    for (int i = 0; i < 16; ++i) v[i] = as_signed(q[i]);
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* m) {
    const Block* b = at(p);
    const float d = widen_f16(b->d);
    const float dmin = widen_f16(b->dmin);
    for (int g = 0; g < 16; ++g) {
      s[g] = d * static_cast<float>(b->scales[g] & 15);
      m[g] = dmin * static_cast<float>(b->scales[g] >> 4);
    }
  }
};

struct Q3K : Layout<DType::kQ3_K, quant::BlockQ3K, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    uint8x16_t q[16];
    all_two_bits(at(p)->qs, q);
    const uint8x16_t third[2] = {vld1q_u8(at(p)->hmask), vld1q_u8(at(p)->hmask + 16)};
    for (int i = 0; i < 16; ++i) {
      const uint8x16_t set =
          vtstq_u8(third[i % 2], vdupq_n_u8(static_cast<uint8_t>(1U << (i / 2))));
      v[i] = less(vorrq_u8(q[i], vandq_u8(set, vdupq_n_u8(4))), 4);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    const Block* b = at(p);
    const float d = widen_f16(b->d);
    for (int g = 0; g < 16; ++g) {
      const int low = b->scales[g % 8] >> (g / 8 * 4) & 15;
      const int high = b->scales[8 + g % 4] >> (g / 4 * 2) & 3;
      s[g] = d * static_cast<float>((low | high << 4) - 32);
    }
  }
};

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
CHIMERE_INLINE void k_scales(const Block* b, float* s, float* m) {
  const float d = widen_f16(b->d);
  const float dmin = widen_f16(b->dmin);
  for (int g = 0; g < 4; ++g) {
    s[g] = d * static_cast<float>(b->scales[g] & 63);
    m[g] = dmin * static_cast<float>(b->scales[g + 4] & 63);
    const int low = b->scales[g + 8];
    s[g + 4] = d * static_cast<float>((low & 15) | b->scales[g] >> 6 << 4);
    m[g + 4] = dmin * static_cast<float>(low >> 4 | b->scales[g + 4] >> 6 << 4);
  }
}

struct Q4K : Layout<DType::kQ4_K, quant::BlockQ4K, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t q = vld1q_u8(at(p)->qs + 16 * i);
      int8x16_t* out = v + i / 2 * 4 + i % 2;
      out[0] = as_signed(low_nibbles(q));
      out[2] = as_signed(high_nibbles(q));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* m) { k_scales(at(p), s, m); }
};

struct Q5K : Layout<DType::kQ5_K, quant::BlockQ5K, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const uint8x16_t qh[2] = {vld1q_u8(at(p)->qh), vld1q_u8(at(p)->qh + 16)};
    // Bit g of qh belongs to group g.
    const auto fifth = [&qh](int i, int g) {
      const uint8x16_t set = vtstq_u8(qh[i % 2], vdupq_n_u8(static_cast<uint8_t>(1U << g)));
      return vandq_u8(set, vdupq_n_u8(16));
    };
    for (int i = 0; i < 8; ++i) {
      const uint8x16_t q = vld1q_u8(at(p)->qs + 16 * i);
      int8x16_t* out = v + i / 2 * 4 + i % 2;
      out[0] = as_signed(vorrq_u8(low_nibbles(q), fifth(i, i / 2 * 2)));
      out[2] = as_signed(vorrq_u8(high_nibbles(q), fifth(i, i / 2 * 2 + 1)));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* m) { k_scales(at(p), s, m); }
};

struct Q6K : Layout<DType::kQ6_K, quant::BlockQ6K, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const Block* b = at(p);
    const uint8x16_t top = vdupq_n_u8(0x30);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 2; ++i) {
        const uint8x16_t a = vld1q_u8(b->ql + 64 * half + 16 * i);
        const uint8x16_t c = vld1q_u8(b->ql + 64 * half + 32 + 16 * i);
        const uint8x16_t qh = vld1q_u8(b->qh + 32 * half + 16 * i);
        int8x16_t* out = v + 8 * half + i;
        out[0] = less(vorrq_u8(low_nibbles(a), vandq_u8(vshlq_n_u8(qh, 4), top)), 32);
        out[2] = less(vorrq_u8(low_nibbles(c), vandq_u8(vshlq_n_u8(qh, 2), top)), 32);
        out[4] = less(vorrq_u8(high_nibbles(a), vandq_u8(qh, top)), 32);
        out[6] = less(vorrq_u8(high_nibbles(c), vandq_u8(vshrq_n_u8(qh, 2), top)), 32);
      }
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    const float d = widen_f16(at(p)->d);
    for (int g = 0; g < 16; ++g) s[g] = d * static_cast<float>(at(p)->scales[g]);
  }
};

}  // namespace

template <>
void product<DType::kQ2_K>(const IntegerProduct& p) {
  integer_product<Q2K>(p);
}
template <>
void product<DType::kQ3_K>(const IntegerProduct& p) {
  integer_product<Q3K>(p);
}
template <>
void product<DType::kQ4_K>(const IntegerProduct& p) {
  integer_product<Q4K>(p);
}
template <>
void product<DType::kQ5_K>(const IntegerProduct& p) {
  integer_product<Q5K>(p);
}
template <>
void product<DType::kQ6_K>(const IntegerProduct& p) {
  integer_product<Q6K>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
