// 16 f32 lanes for any processor (see kernels/math.h for the contract of the arithmetic).
#ifndef CHIMERE_KERNELS_CPU_GENERIC_F32X16_H_
#define CHIMERE_KERNELS_CPU_GENERIC_F32X16_H_

#include <cstdint>

#include "kernels/math.h"
#include "quant/quant.h"

namespace chimere::kernels::cpu::generic {

struct F32x16 {
  /// Number of F32x16 that a kernel can keep in registers.
  static constexpr int kRegisters = 4;

  float v[16];

  template <class F>
  CHIMERE_INLINE static F32x16 each(F f) {
    F32x16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
  }

  CHIMERE_INLINE static F32x16 set(float x) {
    return each([&](int) { return x; });
  }
  CHIMERE_INLINE static F32x16 load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  /// p[0], p[stride], ... p[15 stride]
  CHIMERE_INLINE static F32x16 load_strided(const float* p, int stride) {
    return each([&](int i) { return p[static_cast<int64_t>(i) * stride]; });
  }
  CHIMERE_INLINE static F32x16 load_f16(const uint16_t* p) {
    return each([&](int i) { return quant::f16_to_f32(p[i]); });
  }
  CHIMERE_INLINE static float widen_f16(uint16_t h) { return quant::f16_to_f32(h); }
  CHIMERE_INLINE static F32x16 load_bf16(const uint16_t* p) {
    return each(
        [&](int i) { return __builtin_bit_cast(float, static_cast<uint32_t>(p[i]) << 16U); });
  }
  CHIMERE_INLINE static F32x16 load_i8(const uint8_t* p) {
    return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
  }
  /// The low nibbles of 16 bytes minus 8, and the high ones.
  CHIMERE_INLINE static void load_nibbles(const uint8_t* p, F32x16& low, F32x16& high) {
    low = each([&](int i) { return static_cast<float>((p[i] & 15) - 8); });
    high = each([&](int i) { return static_cast<float>((p[i] >> 4) - 8); });
  }
  CHIMERE_INLINE void store(float* p) const {
    for (int i = 0; i < 16; ++i) p[i] = v[i];
  }
  CHIMERE_INLINE void store_f16(uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = quant::f32_to_f16(v[i]);
  }

  CHIMERE_INLINE friend F32x16 operator+(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 operator-(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 operator*(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 operator/(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 max(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 min(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  CHIMERE_INLINE friend F32x16 pow2_of_biased(const F32x16& t) {
    return each([&](int i) { return pow2_of_biased(F32x1{t.v[i]}).v; });
  }
  /// Sum and difference of every two lanes i and i + kDistance (1, 2, 4 or 8).
  template <int kDistance>
  CHIMERE_INLINE F32x16 butterfly() const {
    return each([&](int i) {
      return (i & kDistance) == 0 ? v[i] + v[i + kDistance] : v[i - kDistance] - v[i];
    });
  }
  /// Lanes below n (0 to 16) of a, the others from b.
  CHIMERE_INLINE friend F32x16 first_lanes(int n, const F32x16& a, const F32x16& b) {
    return each([&](int i) { return i < n ? a.v[i] : b.v[i]; });
  }
  /// The tree of 16 (docs/numerics.md, rule 2).
  CHIMERE_INLINE friend float tree_sum(F32x16 a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    }
    return a.v[0];
  }
  CHIMERE_INLINE friend float largest(const F32x16& a) {
    float m = a.v[0];
    for (int i = 1; i < 16; ++i) m = a.v[i] > m ? a.v[i] : m;
    return m;
  }
};

}  // namespace chimere::kernels::cpu::generic

#endif  // CHIMERE_KERNELS_CPU_GENERIC_F32X16_H_
