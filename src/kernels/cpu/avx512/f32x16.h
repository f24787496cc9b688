// 16 f32 lanes of AVX-512 (see kernels/math.h for the contract of the arithmetic).
#ifndef CHIMERE_KERNELS_CPU_AVX512_F32X16_H_
#define CHIMERE_KERNELS_CPU_AVX512_F32X16_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels::cpu::avx512 {

struct F32x16 {
  /// Number of F32x16 that a kernel can keep in registers.
  static constexpr int kRegisters = 32;

  __m512 v;

  CHIMERE_INLINE static F32x16 set(float x) { return {_mm512_set1_ps(x)}; }
  CHIMERE_INLINE static F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
  /// p[0], p[stride], ... p[15 stride]
  CHIMERE_INLINE static F32x16 load_strided(const float* p, int stride) {
    const __m512i step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return {_mm512_i32gather_ps(_mm512_mullo_epi32(step, _mm512_set1_epi32(stride)), p, 4)};
  }
  CHIMERE_INLINE static F32x16 load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  CHIMERE_INLINE static float widen_f16(uint16_t h) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
  }
  CHIMERE_INLINE static F32x16 load_bf16(const uint16_t* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16))};
  }
  CHIMERE_INLINE static F32x16 load_i8(const uint8_t* p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x))};
  }
  /// The low nibbles of 16 bytes minus 8, and the high ones.
  CHIMERE_INLINE static void load_nibbles(const uint8_t* p, F32x16& low, F32x16& high) {
    const __m512i x = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512 values = _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
    low.v = _mm512_permutexvar_ps(x, values);  // uses the low four bits of an index
    high.v = _mm512_permutexvar_ps(_mm512_srli_epi32(x, 4), values);
  }
  CHIMERE_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  CHIMERE_INLINE void store_f16(uint16_t* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  CHIMERE_INLINE friend F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  CHIMERE_INLINE friend F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
  CHIMERE_INLINE friend F32x16 pow2_of_biased(F32x16 t) {
    const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(n, _mm512_set1_epi32(0x3F800000)))};
  }
  /// Sum and difference of every two lanes i and i + kDistance (1, 2, 4 or 8).
  template <int kDistance>
  CHIMERE_INLINE F32x16 butterfly() const {
    __m512 other = v;
    if constexpr (kDistance == 8) other = _mm512_shuffle_f32x4(v, v, 0x4E);
    if constexpr (kDistance == 4) other = _mm512_shuffle_f32x4(v, v, 0xB1);
    if constexpr (kDistance == 2) other = _mm512_permute_ps(v, 0x4E);
    if constexpr (kDistance == 1) other = _mm512_permute_ps(v, 0xB1);
    constexpr __mmask16 kUpper = kDistance == 8   ? 0xFF00
                                 : kDistance == 4 ? 0xF0F0
                                 : kDistance == 2 ? 0xCCCC
                                                  : 0xAAAA;
    return {_mm512_mask_sub_ps(_mm512_add_ps(v, other), kUpper, other, v)};
  }
  /// Lanes below n (0 to 16) of a, the others from b.
  CHIMERE_INLINE friend F32x16 first_lanes(int n, F32x16 a, F32x16 b) {
    return {_mm512_mask_blend_ps(static_cast<__mmask16>((1U << n) - 1), b.v, a.v)};
  }
  /// The tree of 16 (docs/numerics.md, rule 2).
  CHIMERE_INLINE friend float tree_sum(F32x16 a) {
    const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  CHIMERE_INLINE friend float largest(F32x16 a) { return _mm512_reduce_max_ps(a.v); }
};

}  // namespace chimere::kernels::cpu::avx512

#endif  // CHIMERE_KERNELS_CPU_AVX512_F32X16_H_
