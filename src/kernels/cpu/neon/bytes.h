// Loads and shifts that unpack blocks into vectors of 16 bytes.
#ifndef CHIMERE_KERNELS_CPU_NEON_BYTES_H_
#define CHIMERE_KERNELS_CPU_NEON_BYTES_H_

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

template <class T>
CHIMERE_INLINE T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

CHIMERE_INLINE float widen_f16(uint16_t h) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

CHIMERE_INLINE uint8x16_t low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(15)); }
CHIMERE_INLINE uint8x16_t high_nibbles(uint8x16_t v) { return vshrq_n_u8(v, 4); }
CHIMERE_INLINE int8x16_t as_signed(uint8x16_t v) { return vreinterpretq_s8_u8(v); }
CHIMERE_INLINE int8x16_t less(uint8x16_t v, int8_t bias) {
  return vsubq_s8(as_signed(v), vdupq_n_s8(bias));
}

/// All ones in the bytes whose bit is set: bits 0 to 7 of `low`, then those of `high`.
CHIMERE_INLINE uint8x16_t bytes_of_bits(uint8_t low, uint8_t high) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  return vtstq_u8(vcombine_u8(vdup_n_u8(low), vdup_n_u8(high)), bit);
}

/// v, negated where `negative` is all ones.
CHIMERE_INLINE int8x16_t with_signs(int8x16_t v, uint8x16_t negative) {
  return vsubq_s8(veorq_s8(v, as_signed(negative)), as_signed(negative));
}

/// Two entries of eight bytes.
CHIMERE_INLINE int8x16_t two_entries(const uint64_t* a, const uint64_t* b) {
  return vreinterpretq_s8_u64(vcombine_u64(vld1_u64(a), vld1_u64(b)));
}

}  // namespace
}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_NEON_BYTES_H_
