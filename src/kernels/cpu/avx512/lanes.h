// Small building blocks of the AVX-512 matrix products.
#ifndef CHIMERE_KERNELS_CPU_AVX512_LANES_H_
#define CHIMERE_KERNELS_CPU_AVX512_LANES_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels::cpu::avx512 {

/// The tree of 16 (docs/numerics.md, rule 2).
CHIMERE_INLINE float tree_of_16(__m512 s) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

CHIMERE_INLINE float widen_f16(uint16_t h) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

/// Sums lanes 0 and 2, and 1 and 3, of every 128-bit part of a and of b.
CHIMERE_INLINE __m512i fold_pairs(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/// v[i] holds 4-element sums of elements 64 i .. 64 i + 63. Lane 4 k + i of the result is the sum
/// of elements 64 i + 16 k .. + 15.
CHIMERE_INLINE __m512i sums_of_16_transposed(const __m512i v[4]) {
  const __m512i a = fold_pairs(v[0], v[1]);
  const __m512i b = fold_pairs(v[2], v[3]);
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/// The 16 sums over 16 consecutive elements of 256, in order.
CHIMERE_INLINE __m512i sums_of_16(const __m512i v[4]) {
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return _mm512_permutexvar_epi32(order, sums_of_16_transposed(v));
}

/// The 16 sums over 32 consecutive elements of 512 (the first 256 in a, the rest in b), in order.
CHIMERE_INLINE __m512i sums_of_32(const __m512i a[4], const __m512i b[4]) {
  const __m512i s = sums_of_16_transposed(a);
  const __m512i t = sums_of_16_transposed(b);
  // Lane 4 m + i: block 8 (m / 2) + 2 i + m % 2.
  const __m512i u =
      _mm512_add_epi32(_mm512_shuffle_i64x2(s, t, 0x88), _mm512_shuffle_i64x2(s, t, 0xDD));
  const __m512i order = _mm512_set_epi32(15, 11, 14, 10, 13, 9, 12, 8, 7, 3, 6, 2, 5, 1, 4, 0);
  return _mm512_permutexvar_epi32(order, u);
}

/// 16 rows of 16 dwords become 16 columns.
CHIMERE_INLINE void transpose_16x16(__m512i r[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 g + c]: rows 4 g .. 4 g + 3 of columns c, c + 4, c + 8, c + 12.
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xDD);
    t[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xDD);
  }
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0x88);
    r[8 + c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0xDD);
    r[4 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0xDD);
  }
}

}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_LANES_H_
