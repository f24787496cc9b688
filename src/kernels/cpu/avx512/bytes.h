// Loads and shifts that unpack blocks into vectors of 64 bytes.
#ifndef CHIMERE_KERNELS_CPU_AVX512_BYTES_H_
#define CHIMERE_KERNELS_CPU_AVX512_BYTES_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// 32 bytes in both halves.
CHIMERE_INLINE __m512i both_halves(const uint8_t* p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

/// `low` in the 16-bit lanes of the lower half, `high` in those of the upper.
CHIMERE_INLINE __m512i halves_epi16(int low, int high) {
  return _mm512_inserti64x4(_mm512_set1_epi16(static_cast<int16_t>(low)),
                            _mm256_set1_epi16(static_cast<int16_t>(high)), 1);
}

/// A table of 16 bytes for _mm512_shuffle_epi8.
CHIMERE_INLINE __m512i table_of_16(const int8_t* t) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
}

/// The nibbles of two blocks of 32, 16 bytes each, in order: low ones of a, high ones of a, ...
CHIMERE_INLINE __m512i nibbles_of(const uint8_t* a, const uint8_t* b) {
  const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)));
  const __m512i both = _mm512_mask_broadcast_i32x4(
      low, 0xFF00, _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
  const __m512i shift = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
  return _mm512_and_si512(_mm512_srlv_epi64(both, shift), _mm512_set1_epi8(15));
}

/// The 32-bit masks of two blocks, for 64 bytes.
CHIMERE_INLINE __mmask64 two_masks(uint32_t low, uint32_t high) {
  return low | static_cast<uint64_t>(high) << 32;
}

}  // namespace
}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_BYTES_H_
