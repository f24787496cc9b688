// Q8_0, the K-quants and IQ3_S with AVX2.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu::avx2 {
namespace {

CHIMERE_INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }

CHIMERE_INLINE __m256 widen_bytes(uint64_t bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
}

struct Q80 {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 8;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ8_0);
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = true;
  static constexpr bool kMinimum = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const quant::BlockQ8_0*>(p);
    for (int i = 0; i < 8; ++i) v[i] = load_bytes(b[i].qs);
  }

  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256& m) {
    const auto* b = reinterpret_cast<const quant::BlockQ8_0*>(p);
    const __m128i d = _mm_setr_epi16(static_cast<int16_t>(b[0].d), static_cast<int16_t>(b[1].d),
                                     static_cast<int16_t>(b[2].d), static_cast<int16_t>(b[3].d),
                                     static_cast<int16_t>(b[4].d), static_cast<int16_t>(b[5].d),
                                     static_cast<int16_t>(b[6].d), static_cast<int16_t>(b[7].d));
    s[0] = _mm256_cvtph_ps(d);
    s[1] = m = _mm256_setzero_ps();
  }
};

/// Scales and minima of Q4_K and Q5_K; both structs begin with d, dmin, scales[12].
CHIMERE_INLINE void k_scales(const uint8_t* p, __m256 s[2], __m256& m) {
  uint16_t d[2];
  uint32_t a;
  uint32_t b;
  uint32_t c;
  std::memcpy(d, p, 4);
  std::memcpy(&a, p + 4, 4);
  std::memcpy(&b, p + 8, 4);
  std::memcpy(&c, p + 12, 4);
  constexpr uint32_t kSix = 0x3F3F3F3F;
  constexpr uint32_t kFour = 0x0F0F0F0F;
  constexpr uint32_t kTop = 0x30303030;
  const uint64_t scale_high = (c & kFour) | ((a >> 2) & kTop);
  const uint64_t min_high = ((c >> 4) & kFour) | ((b >> 2) & kTop);
  s[0] =
      _mm256_mul_ps(_mm256_set1_ps(widen_f16(d[0])), widen_bytes((a & kSix) | (scale_high << 32)));
  s[1] = _mm256_setzero_ps();
  m = _mm256_mul_ps(_mm256_set1_ps(widen_f16(d[1])), widen_bytes((b & kSix) | (min_high << 32)));
}

struct Q4K {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ4K);
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr bool kMinimum = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const quant::BlockQ4K*>(p);
    for (int i = 0; i < 4; ++i) {
      const __m256i q = load_bytes(b->qs + 32 * i);
      v[2 * i] = low_nibbles(q);
      v[2 * i + 1] = low_nibbles(_mm256_srli_epi16(q, 4));
    }
  }

  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256& m) { k_scales(p, s, m); }
};

struct Q5K {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ5K);
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr bool kMinimum = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const quant::BlockQ5K*>(p);
    const __m256i qh = load_bytes(b->qh);
    // Bit s of qh belongs to group s.
    auto fifth = [qh](int s) {
      const __m256i bit = s <= 4 ? _mm256_slli_epi16(qh, 4 - s) : _mm256_srli_epi16(qh, s - 4);
      return _mm256_and_si256(bit, _mm256_set1_epi8(16));
    };
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m256i q = load_bytes(b->qs + 32 * i);
      v[2 * i] = _mm256_or_si256(low_nibbles(q), fifth(2 * i));
      v[2 * i + 1] = _mm256_or_si256(low_nibbles(_mm256_srli_epi16(q, 4)), fifth(2 * i + 1));
    }
  }

  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256& m) { k_scales(p, s, m); }
};

struct Q6K {
  static constexpr int kGroup = 16;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockQ6K);
  static constexpr int kOffset = 5;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const quant::BlockQ6K*>(p);
    const __m256i top = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m256i a = load_bytes(b->ql + 64 * half);
      const __m256i c = load_bytes(b->ql + 64 * half + 32);
      const __m256i qh = load_bytes(b->qh + 32 * half);
      __m256i* out = v + 4 * half;
      out[0] = _mm256_or_si256(low_nibbles(a), _mm256_and_si256(_mm256_slli_epi16(qh, 4), top));
      out[1] = _mm256_or_si256(low_nibbles(c), _mm256_and_si256(_mm256_slli_epi16(qh, 2), top));
      out[2] = _mm256_or_si256(low_nibbles(_mm256_srli_epi16(a, 4)), _mm256_and_si256(qh, top));
      out[3] = _mm256_or_si256(low_nibbles(_mm256_srli_epi16(c, 4)),
                               _mm256_and_si256(_mm256_srli_epi16(qh, 2), top));
    }
  }

  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256& m) {
    const auto* b = reinterpret_cast<const quant::BlockQ6K*>(p);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales));
    const __m256 d = _mm256_set1_ps(widen_f16(b->d));
    s[0] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    s[1] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))));
    m = _mm256_setzero_ps();
  }
};

struct Iq3S {
  static constexpr int kGroup = 32;
  static constexpr int kBlocks = 1;
  static constexpr int64_t kBlockBytes = sizeof(quant::BlockIq3S);
  static constexpr int kOffset = 4;
  static constexpr bool kSigned = false;
  static constexpr bool kMinimum = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* b = reinterpret_cast<const quant::BlockIq3S*>(p);
    const auto* grid = reinterpret_cast<const int*>(&quant::kIq3SGrid);
    const __m256i to_ninth = _mm256_set_epi32(1, 2, 3, 4, 5, 6, 7, 8);
    const __m256i byte_of_element =
        _mm256_set_epi32(0x03030303, 0x03030303, 0x02020202, 0x02020202, 0x01010101, 0x01010101,
                         0x00000000, 0x00000000);
    const __m256i bit_of_element = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    for (int i = 0; i < 8; ++i) {
      const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b->qs + 8 * i));
      const __m256i high = _mm256_and_si256(
          _mm256_sllv_epi32(_mm256_set1_epi32(b->qh[i]), to_ninth), _mm256_set1_epi32(256));
      const __m256i index = _mm256_or_si256(_mm256_cvtepu8_epi32(low), high);
      const __m256i magnitude = _mm256_i32gather_epi32(grid, index, 4);
      int32_t signs;
      std::memcpy(&signs, b->signs + 4 * i, 4);
      const __m256i bits = _mm256_and_si256(
          _mm256_shuffle_epi8(_mm256_set1_epi32(signs), byte_of_element), bit_of_element);
      const __m256i negative = _mm256_cmpeq_epi8(bits, bit_of_element);
      const __m256i q = _mm256_sub_epi8(_mm256_xor_si256(magnitude, negative), negative);
      v[i] = _mm256_add_epi8(q, _mm256_set1_epi8(1 << kOffset));
    }
  }

  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256& m) {
    const auto* b = reinterpret_cast<const quant::BlockIq3S*>(p);
    int32_t nibbles;
    std::memcpy(&nibbles, b->scales, 4);
    const __m256i shift = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    const __m256i n = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(nibbles), shift),
                                       _mm256_set1_epi32(15));
    const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(n, n), _mm256_set1_epi32(1));
    s[0] = _mm256_mul_ps(_mm256_set1_ps(widen_f16(b->d)), _mm256_cvtepi32_ps(odd));
    s[1] = m = _mm256_setzero_ps();
  }
};

}  // namespace

void product_q8_0(const IntegerProduct& p) { integer_product<Q80>(p); }
void product_q4_k(const IntegerProduct& p) { integer_product<Q4K>(p); }
void product_q5_k(const IntegerProduct& p) { integer_product<Q5K>(p); }
void product_q6_k(const IntegerProduct& p) { integer_product<Q6K>(p); }
void product_iq3_s(const IntegerProduct& p) { integer_product<Iq3S>(p); }

}  // namespace chimere::kernels::cpu::avx2
