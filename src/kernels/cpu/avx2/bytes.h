// Loads and shifts that unpack blocks into vectors of 32 bytes.
#ifndef CHIMERE_KERNELS_CPU_AVX2_BYTES_H_
#define CHIMERE_KERNELS_CPU_AVX2_BYTES_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx2/integer_product.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

CHIMERE_INLINE __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }

CHIMERE_INLINE __m128i load_16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

/// 16 bytes in both halves, for _mm256_shuffle_epi8.
CHIMERE_INLINE __m256i table_of_16(const int8_t* t) {
  return _mm256_broadcastsi128_si256(load_16(t));
}

/// The nibbles of a block of 32: the low ones of 16 bytes, then the high ones.
CHIMERE_INLINE __m256i nibbles_of(const uint8_t* qs) {
  const __m128i q = load_16(qs);
  return low_nibbles(_mm256_inserti128_si256(_mm256_castsi128_si256(q), _mm_srli_epi16(q, 4), 1));
}

/// All ones in the bytes whose bit is set.
CHIMERE_INLINE __m256i bytes_of_mask(int32_t bits) {
  const __m256i byte_of_element = _mm256_set_epi32(0x03030303, 0x03030303, 0x02020202, 0x02020202,
                                                   0x01010101, 0x01010101, 0x00000000, 0x00000000);
  const __m256i bit_of_element = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of_element);
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of_element), bit_of_element);
}

/// 8 integers of 8 bits to f32, less `bias`.
CHIMERE_INLINE __m256 widen_bytes(__m128i bytes, int bias = 0) {
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(bias)));
}

CHIMERE_INLINE __m128i upper_8(__m128i bytes) { return _mm_srli_si128(bytes, 8); }

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_AVX2_BYTES_H_
