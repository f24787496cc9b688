// The K-quants with AVX-512 VNNI.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Chunk k of Q2_K and Q3_K is 64 elements: two bits of 32 bytes, and the next two.
CHIMERE_INLINE __m512i two_bits(const uint8_t* qs, int k) {
  const __m512i shift = k % 2 == 0 ? halves_epi16(0, 2) : halves_epi16(4, 6);
  return _mm512_and_si512(_mm512_srlv_epi16(both_halves(qs + k / 2 * 32), shift),
                          _mm512_set1_epi8(3));
}

/// d times 16 integers of 32 bits.
CHIMERE_INLINE __m512 times_f16(uint16_t d, __m512i s) {
  return _mm512_mul_ps(_mm512_set1_ps(widen_f16(d)), _mm512_cvtepi32_ps(s));
}

struct Q2K : Layout<DType::kQ2_K, quant::BlockQ2K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    for (int k = 0; k < 4; ++k) v[k] = two_bits(at(p)->qs, k);
  }
  CHIMERE_INLINE static __m512i packed(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at(p)->scales)));
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    return times_f16(at(p)->d, _mm512_and_si512(packed(p), _mm512_set1_epi32(15)));
  }
  CHIMERE_INLINE static __m512 minima(const uint8_t* p) {
    return times_f16(at(p)->dmin, _mm512_srli_epi32(packed(p), 4));
  }
};

struct Q3K : Layout<DType::kQ3_K, quant::BlockQ3K, 1> {
  static constexpr int kOffset = 2;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i third = both_halves(b->hmask);
    for (int k = 0; k < 4; ++k) {
      const __m512i q = two_bits(b->qs, k);
      // Bits 2 k and 2 k + 1 of every byte of hmask belong to these 64 elements.
      const __m512i bit = halves_epi16(0x0101 << (2 * k), 0x0202 << (2 * k));
      v[k] = _mm512_mask_add_epi8(q, _mm512_test_epi8_mask(third, bit), q, _mm512_set1_epi8(4));
    }
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m512i s = _mm512_cvtepu8_epi32(q3_k_scales(b->scales));
    return times_f16(b->d, _mm512_sub_epi32(s, _mm512_set1_epi32(32)));
  }
};

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
CHIMERE_INLINE __m512 k_scales(const Block* b) {
  const __m128 factors = _mm_cvtph_ps(_mm_cvtsi32_si128(load<int32_t>(b)));
  const __m512i which = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_mul_ps(_mm512_permutexvar_ps(which, _mm512_castps128_ps512(factors)),
                       _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(k_scales_minima(b->scales))));
}

/// Low, then high nibbles of 32 bytes.
CHIMERE_INLINE __m512i nibbles_of_32(const uint8_t* qs) {
  return _mm512_and_si512(_mm512_srlv_epi16(both_halves(qs), halves_epi16(0, 4)),
                          _mm512_set1_epi8(15));
}

struct Q4K : Layout<DType::kQ4_K, quant::BlockQ4K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    for (int i = 0; i < 4; ++i) v[i] = nibbles_of_32(at(p)->qs + 32 * i);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(at(p)); }
};

struct Q5K : Layout<DType::kQ5_K, quant::BlockQ5K, 1> {
  static constexpr int kOffset = -1;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i qh = both_halves(b->qh);
    for (int i = 0; i < 4; ++i) {
      // Bits 2 i and 2 i + 1 of every byte of qh belong to these 64 elements.
      const __m512i bit = halves_epi16(0x0101 << (2 * i), 0x0202 << (2 * i));
      const __m512i q = nibbles_of_32(b->qs + 32 * i);
      v[i] = _mm512_mask_add_epi8(q, _mm512_test_epi8_mask(qh, bit), q, _mm512_set1_epi8(16));
    }
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(at(p)); }
};

struct Q6K : Layout<DType::kQ6_K, quant::BlockQ6K, 1> {
  static constexpr int kOffset = 5;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i top = _mm512_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const __m512i ql = load_bytes(b->ql + 64 * half);
      const __m512i qh = both_halves(b->qh + 32 * half);
      // Bits 0-1, 2-3 (then 4-5, 6-7) of qh to bits 4-5.
      const __m512i top_low = _mm512_and_si512(_mm512_sllv_epi16(qh, halves_epi16(4, 2)), top);
      const __m512i top_high = _mm512_and_si512(_mm512_srlv_epi16(qh, halves_epi16(0, 2)), top);
      v[2 * half] = _mm512_or_si512(_mm512_and_si512(ql, low), top_low);
      v[2 * half + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(ql, 4), low), top_high);
    }
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales));
    return times_f16(b->d, _mm512_cvtepi8_epi32(bytes));
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

}  // namespace chimere::kernels::cpu::avx512
