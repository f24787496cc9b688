// Codebooks by byte permutations (VBMI): 64 entries are looked up at once, with no gather.
#ifndef CHIMERE_KERNELS_CPU_AVX512_CODEBOOKS_H_
#define CHIMERE_KERNELS_CPU_AVX512_CODEBOOKS_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/lanes.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Bytes of a table at 64 indices: the low seven bits are in `low`, and one bit each in masks.
template <int kEntries>
CHIMERE_INLINE __m512i look_up(const uint8_t* table, __m512i low, const __mmask64* bits) {
  if constexpr (kEntries == 128) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), low, _mm512_load_si512(table + 64));
  } else {
    constexpr int kHalf = kEntries / 2;
    constexpr int kBit = kEntries == 256 ? 0 : kEntries == 512 ? 1 : kEntries == 1024 ? 2 : 3;
    return _mm512_mask_blend_epi8(bits[kBit], look_up<kHalf>(table, low, bits),
                                  look_up<kHalf>(table + kHalf, low, bits));
  }
}

/// 32 bytes of each of two super-blocks, alternating in eights: byte 16 j + i is byte 8 j + i of
/// the first, byte 16 j + 8 + i of the second. After the lookup, interleaving separates them.
CHIMERE_INLINE __m512i in_turn(const uint8_t* a, const uint8_t* b) {
  const __m512i first =
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
  const __m512i second =
      _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  return _mm512_permutex2var_epi64(first, _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), second);
}

/// Codes of 64 groups of four (two bits an element) to one of three values, by place.
CHIMERE_INLINE void expand_codes(__m512i codes, int zero, int one, int two, __m512i v[4]) {
  // Four entries, repeated: a permutation uses two index bits and ignores the bits above.
  const __m512i values = _mm512_set1_epi32(zero | one << 8 | two << 16);
  for (int c = 0; c < 4; ++c) {
    v[c] = _mm512_permutexvar_epi8(_mm512_srli_epi16(codes, 2 * c), values);
  }
}

/// d (1 + 2 scale) unit.
CHIMERE_INLINE __m512 odd_scales(uint16_t d, __m512i scale, float unit) {
  const __m512i odd = _mm512_add_epi32(_mm512_add_epi32(scale, scale), _mm512_set1_epi32(1));
  return _mm512_mul_ps(_mm512_set1_ps(widen_f16(d) * unit), _mm512_cvtepi32_ps(odd));
}
/// Of eight groups of 32; 0 where minima would be.
CHIMERE_INLINE __m512 odd_scales_of_32(uint16_t d, __m256i scale, float unit) {
  return _mm512_maskz_mov_ps(0x00FF, odd_scales(d, _mm512_castsi256_si512(scale), unit));
}

}  // namespace
}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_CODEBOOKS_H_
