// 16 f32 lanes as four registers of NEON (see kernels/math.h for the contract of the arithmetic).
#ifndef CHIMERE_KERNELS_CPU_NEON_F32X16_H_
#define CHIMERE_KERNELS_CPU_NEON_F32X16_H_

#include <arm_neon.h>

#include <cstdint>

#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

struct F32x16 {
  /// Number of F32x16 that a kernel can keep in registers.
  static constexpr int kRegisters = 8;

  float32x4_t v[4];

  template <class F>
  CHIMERE_INLINE static F32x16 each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }

  CHIMERE_INLINE static F32x16 set(float x) {
    return each([&](int) { return vdupq_n_f32(x); });
  }
  CHIMERE_INLINE static F32x16 load(const float* p) {
    return each([&](int i) { return vld1q_f32(p + 4 * i); });
  }
  /// p[0], p[stride], ... p[15 stride]
  CHIMERE_INLINE static F32x16 load_strided(const float* p, int stride) {
    return each([&](int i) {
      const float* at = p + static_cast<int64_t>(4 * i) * stride;
      float32x4_t r = vld1q_dup_f32(at);
      r = vld1q_lane_f32(at + stride, r, 1);
      r = vld1q_lane_f32(at + static_cast<int64_t>(2) * stride, r, 2);
      return vld1q_lane_f32(at + static_cast<int64_t>(3) * stride, r, 3);
    });
  }
  CHIMERE_INLINE static F32x16 load_f16(const uint16_t* p) {
    return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
  }
  CHIMERE_INLINE static float widen_f16(uint16_t h) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
  }
  CHIMERE_INLINE static F32x16 load_bf16(const uint16_t* p) {
    return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
  }
  CHIMERE_INLINE static F32x16 load_i8(const uint8_t* p) {
    return from_i8(vreinterpretq_s8_u8(vld1q_u8(p)));
  }
  CHIMERE_INLINE static F32x16 from_i8(int8x16_t x) {
    const int16x8_t low = vmovl_s8(vget_low_s8(x));
    const int16x8_t high = vmovl_s8(vget_high_s8(x));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }
  /// The low nibbles of 16 bytes minus 8, and the high ones.
  CHIMERE_INLINE static void load_nibbles(const uint8_t* p, F32x16& low, F32x16& high) {
    const uint8x16_t x = vld1q_u8(p);
    const int8x16_t bias = vdupq_n_s8(8);
    low = from_i8(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15))), bias));
    high = from_i8(vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(x, 4)), bias));
  }
  CHIMERE_INLINE void store(float* p) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v[i]);
  }
  CHIMERE_INLINE void store_f16(uint16_t* p) const {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v[i])));
  }

  CHIMERE_INLINE friend F32x16 operator+(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 operator-(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 operator*(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 operator/(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 fma(const F32x16& a, const F32x16& b, const F32x16& c) {
    return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
  }
  /// b where a lane is not a number, as x86 does; vmaxq_f32() would keep the NaN.
  CHIMERE_INLINE friend F32x16 max(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 min(const F32x16& a, const F32x16& b) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
  }
  CHIMERE_INLINE friend F32x16 pow2_of_biased(const F32x16& t) {
    return each([&](int i) {
      const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(t.v[i]), 23);
      return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(0x3F800000)));
    });
  }
  /// Sum and difference of every two lanes i and i + kDistance (1, 2, 4 or 8).
  template <int kDistance>
  CHIMERE_INLINE F32x16 butterfly() const {
    if constexpr (kDistance == 8) {
      return {{vaddq_f32(v[0], v[2]), vaddq_f32(v[1], v[3]), vsubq_f32(v[0], v[2]),
               vsubq_f32(v[1], v[3])}};
    } else if constexpr (kDistance == 4) {
      return {{vaddq_f32(v[0], v[1]), vsubq_f32(v[0], v[1]), vaddq_f32(v[2], v[3]),
               vsubq_f32(v[2], v[3])}};
    } else {
      return each([&](int i) {
        const float32x4_t x = v[i];
        const float32x4_t other = kDistance == 2 ? vextq_f32(x, x, 2) : vrev64q_f32(x);
        const float32x4_t sum = vaddq_f32(x, other);
        const float32x4_t difference = vsubq_f32(other, x);
        if constexpr (kDistance == 2) {
          return vcombine_f32(vget_low_f32(sum), vget_high_f32(difference));
        } else {
          return vtrn2q_f32(vrev64q_f32(sum), difference);
        }
      });
    }
  }
  /// Lanes below n (0 to 16) of a, the others from b.
  CHIMERE_INLINE friend F32x16 first_lanes(int n, const F32x16& a, const F32x16& b) {
    const int32x4_t lane =
        vcombine_s32(vcreate_s32(0x0000000100000000), vcreate_s32(0x0000000300000002));
    return each([&](int i) {
      const uint32x4_t below = vcltq_s32(lane, vdupq_n_s32(n - 4 * i));
      return vbslq_f32(below, a.v[i], b.v[i]);
    });
  }
  /// The tree of 16 (docs/numerics.md, rule 2).
  CHIMERE_INLINE friend float tree_sum(const F32x16& a) {
    const float32x4_t b = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    const float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
  }
  CHIMERE_INLINE friend float largest(const F32x16& a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
  }
};

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_NEON_F32X16_H_
