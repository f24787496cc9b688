// 16 f32 lanes as two registers of AVX2 (see kernels/math.h for the contract of the arithmetic).
#ifndef CHIMERE_KERNELS_CPU_AVX2_F32X16_H_
#define CHIMERE_KERNELS_CPU_AVX2_F32X16_H_

#include <immintrin.h>

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

struct F32x16 {
  /// Number of F32x16 that a kernel can keep in registers.
  static constexpr int kRegisters = 8;

  __m256 lo;
  __m256 hi;

  CHIMERE_INLINE static F32x16 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  CHIMERE_INLINE static F32x16 load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  /// p[0], p[stride], ... p[15 stride]
  CHIMERE_INLINE static F32x16 load_strided(const float* p, int stride) {
    const __m256i index =
        _mm256_mullo_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32(stride));
    return {_mm256_i32gather_ps(p, index, 4),
            _mm256_i32gather_ps(p + static_cast<int64_t>(8) * stride, index, 4)};
  }
  CHIMERE_INLINE static F32x16 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  CHIMERE_INLINE static float widen_f16(uint16_t h) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
  }
  CHIMERE_INLINE static F32x16 load_bf16(const uint16_t* p) {
    auto half = [](const uint16_t* from) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    };
    return {half(p), half(p + 8)};
  }
  CHIMERE_INLINE static F32x16 load_i8(const uint8_t* p) {
    return from_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  CHIMERE_INLINE static F32x16 from_i8(__m128i x) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
  }
  /// The low nibbles of 16 bytes minus 8, and the high ones.
  CHIMERE_INLINE static void load_nibbles(const uint8_t* p, F32x16& low, F32x16& high) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i mask = _mm_set1_epi8(15);
    const __m128i values = _mm_setr_epi8(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    low = from_i8(_mm_shuffle_epi8(values, _mm_and_si128(x, mask)));
    high = from_i8(_mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(x, 4), mask)));
  }
  CHIMERE_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  CHIMERE_INLINE void store_f16(uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                     _mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT));
  }

  CHIMERE_INLINE friend F32x16 operator+(F32x16 a, F32x16 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 operator-(F32x16 a, F32x16 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 operator*(F32x16 a, F32x16 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 operator/(F32x16 a, F32x16 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  CHIMERE_INLINE friend F32x16 max(F32x16 a, F32x16 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 min(F32x16 a, F32x16 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
  }
  CHIMERE_INLINE friend F32x16 pow2_of_biased(F32x16 t) {
    const __m256i one = _mm256_set1_epi32(0x3F800000);
    const __m256i a = _mm256_slli_epi32(_mm256_castps_si256(t.lo), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_castps_si256(t.hi), 23);
    return {_mm256_castsi256_ps(_mm256_add_epi32(a, one)),
            _mm256_castsi256_ps(_mm256_add_epi32(b, one))};
  }
  /// Sum and difference of every two lanes i and i + kDistance (1, 2, 4 or 8).
  template <int kDistance>
  CHIMERE_INLINE F32x16 butterfly() const {
    if constexpr (kDistance == 8) {
      return {_mm256_add_ps(lo, hi), _mm256_sub_ps(lo, hi)};
    } else {
      auto half = [](__m256 x) {
        __m256 other = x;
        if constexpr (kDistance == 4) other = _mm256_permute2f128_ps(x, x, 1);
        if constexpr (kDistance == 2) other = _mm256_permute_ps(x, 0x4E);
        if constexpr (kDistance == 1) other = _mm256_permute_ps(x, 0xB1);
        constexpr int kUpper = kDistance == 4 ? 0xF0 : kDistance == 2 ? 0xCC : 0xAA;
        return _mm256_blend_ps(_mm256_add_ps(x, other), _mm256_sub_ps(other, x), kUpper);
      };
      return {half(lo), half(hi)};
    }
  }
  /// Lanes below n (0 to 16) of a, the others from b.
  CHIMERE_INLINE friend F32x16 first_lanes(int n, F32x16 a, F32x16 b) {
    const __m256i count = _mm256_set1_epi32(n);
    const __m256i low = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    const __m256i high = _mm256_set_epi32(15, 14, 13, 12, 11, 10, 9, 8);
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low))),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high)))};
  }
  /// The tree of 16 (docs/numerics.md, rule 2).
  CHIMERE_INLINE friend float tree_sum(F32x16 a) {
    const __m256 b = _mm256_add_ps(a.lo, a.hi);
    const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  CHIMERE_INLINE friend float largest(F32x16 a) {
    const __m256 b = _mm256_max_ps(a.lo, a.hi);
    const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
};

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_AVX2_F32X16_H_
