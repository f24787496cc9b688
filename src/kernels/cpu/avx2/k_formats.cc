// The K-quants with AVX2.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// d times 16 bytes less `bias`, as two vectors.
CHIMERE_INLINE void scales_of_16(uint16_t d, __m128i bytes, int bias, __m256 s[2]) {
  const __m256 factor = _mm256_set1_ps(widen_f16(d));
  s[0] = _mm256_mul_ps(factor, widen_bytes(bytes, bias));
  s[1] = _mm256_mul_ps(factor, widen_bytes(upper_8(bytes), bias));
}

/// Eight times 32 weights of two bits: bits 2 k and 2 k + 1 of 32 bytes for k < 4.
CHIMERE_INLINE void two_bits(const uint8_t* qs, __m256i v[8]) {
  const __m256i low = _mm256_set1_epi8(3);
  for (int half = 0; half < 2; ++half) {
    const __m256i q = load_bytes(qs + 32 * half);
    for (int k = 0; k < 4; ++k) {
      v[4 * half + k] = _mm256_and_si256(_mm256_srli_epi16(q, 2 * k), low);
    }
  }
}

struct Q2K : Layout<DType::kQ2_K, quant::BlockQ2K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 3;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) { two_bits(at(p)->qs, v); }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    const Block* b = at(p);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i bytes = load_16(b->scales);
    scales_of_16(b->d, _mm_and_si128(bytes, nibble), 0, s);
    scales_of_16(b->dmin, _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble), 0, m);
  }
};

struct Q3K : Layout<DType::kQ3_K, quant::BlockQ3K, 1> {
  static constexpr int kOffset = 2;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 7;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    two_bits(at(p)->qs, v);
    const __m256i third = load_bytes(at(p)->hmask);
    const __m256i four = _mm256_set1_epi8(4);
    for (int k = 0; k < 8; ++k) {
      const __m256i bit = k < 2 ? _mm256_slli_epi16(third, 2 - k) : _mm256_srli_epi16(third, k - 2);
      v[k] = _mm256_or_si256(v[k], _mm256_and_si256(bit, four));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    scales_of_16(at(p)->d, q3_k_scales(at(p)->scales), 32, s);
  }
};

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
CHIMERE_INLINE void k_scales(const Block* b, __m256& s, __m256& m) {
  const __m128i bytes = k_scales_minima(b->scales);
  s = _mm256_mul_ps(_mm256_set1_ps(widen_f16(b->d)), widen_bytes(bytes));
  m = _mm256_mul_ps(_mm256_set1_ps(widen_f16(b->dmin)), widen_bytes(upper_8(bytes)));
}

struct Q4K : Layout<DType::kQ4_K, quant::BlockQ4K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 15;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    for (int i = 0; i < 4; ++i) {
      const __m256i q = load_bytes(at(p)->qs + 32 * i);
      v[2 * i] = low_nibbles(q);
      v[2 * i + 1] = low_nibbles(_mm256_srli_epi16(q, 4));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    k_scales(at(p), s[0], m[0]);
  }
};

struct Q5K : Layout<DType::kQ5_K, quant::BlockQ5K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 31;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
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
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 m[2]) {
    k_scales(at(p), s[0], m[0]);
  }
};

struct Q6K : Layout<DType::kQ6_K, quant::BlockQ6K, 1> {
  static constexpr int kOffset = 5;
  static constexpr bool kSigned = false;
  static constexpr int kLargest = 63;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
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
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    // Signed bytes: flipping the top bit adds 128.
    scales_of_16(at(p)->d, _mm_xor_si128(load_16(at(p)->scales), _mm_set1_epi8(-128)), 128, s);
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
