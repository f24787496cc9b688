// IQ1_S and IQ1_M with AVX-512 VNNI. Permutations would need 32 steps for a codebook of 2048, so
// its entries, 16 kB, are loaded one by one.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// 256 weights plus 16 from 32 indices (16 bits each); bit e of `negative`: delta is -1/8 in entry
/// e.
CHIMERE_INLINE void iq1_weights(__m512i index, __mmask32 negative, __m512i v[4]) {
  alignas(64) uint64_t four[8];
  _mm512_store_si512(four, index);
  const __m512i two = _mm512_set1_epi8(2);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i q =
        _mm512_inserti64x4(_mm512_castsi256_si512(four_entries(kIq1Bytes.entry, four[2 * i])),
                           four_entries(kIq1Bytes.entry, four[2 * i + 1]), 1);
    // No byte borrows from the next.
    v[i] = _mm512_mask_sub_epi64(q, static_cast<__mmask8>(negative >> (8 * i)), q, two);
  }
}

/// 32 low bytes with, above them, the three lowest bits of each of 32 words.
CHIMERE_INLINE __m512i index_of(const uint8_t* low, __m512i high) {
  const __m512i bytes =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low)));
  // 0xEA: (a & b) | c.
  return _mm512_ternarylogic_epi64(_mm512_slli_epi16(high, 8), _mm512_set1_epi16(0x0700), bytes,
                                   0xEA);
}

CHIMERE_INLINE __m512 odd_scales(float d, __m512i scale) {
  const __m512i odd = _mm512_add_epi32(_mm512_add_epi32(scale, scale), _mm512_set1_epi32(1));
  return _mm512_mul_ps(_mm512_set1_ps(d * 0.125F), _mm512_cvtepi32_ps(odd));
}

struct Iq1S : Layout<DType::kIQ1_S, quant::BlockIq1S, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static __m128i words(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(p)->qh));
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const __m512i fourth = _mm512_set_epi16(7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3,
                                            3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i qh = _mm512_permutexvar_epi16(fourth, _mm512_castsi128_si512(words(p)));
    const __m512i shift = _mm512_set1_epi64(0x0009000600030000);
    iq1_weights(index_of(at(p)->qs, _mm512_srlv_epi16(qh, shift)), _mm512_movepi16_mask(qh), v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const __m256i s = _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu16_epi32(words(p)), 12),
                                       _mm256_set1_epi32(7));
    return _mm512_maskz_mov_ps(0x00FF, odd_scales(widen_f16(at(p)->d), _mm512_castsi256_si512(s)));
  }
};

struct Iq1M : Layout<DType::kIQ1_M, quant::BlockIq1M, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr bool kByFours = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    // Low and high nibbles of 16 bytes to 32 words.
    const __m256i qh =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b->qh)));
    const __m512i twice = _mm512_cvtepu16_epi32(qh);
    const __m512i high = _mm512_or_si512(twice, _mm512_slli_epi32(twice, 12));
    const __mmask32 negative = _mm512_test_epi16_mask(high, _mm512_set1_epi16(8));
    iq1_weights(index_of(b->qs, high), negative, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const auto packed = load<int64_t>(b->scales);
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_set1_epi64x(packed));
    // Lane g: word g / 4, from bit 3 (g mod 4) on.
    const __m512i order = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i shift = _mm512_set_epi32(9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0);
    const __m512i s = _mm512_and_si512(
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(order, words), shift), _mm512_set1_epi32(7));
    return odd_scales(widen_f16(quant::iq1_m_scale(*b)), s);
  }
};

}  // namespace

template <>
void product<DType::kIQ1_S>(const IntegerProduct& p) {
  integer_product<Iq1S>(p);
}
template <>
void product<DType::kIQ1_M>(const IntegerProduct& p) {
  integer_product<Iq1M>(p);
}

}  // namespace chimere::kernels::cpu::avx512
