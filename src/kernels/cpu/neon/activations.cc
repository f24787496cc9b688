// Rounding of activations (docs/numerics.md, rule 3) with NEON.
#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/neon/kernels.h"
#include "kernels/dot_rule.h"
#include "kernels/math.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

CHIMERE_INLINE void round_block(const float* x, int64_t b, const RoundedRow& out) {
  const uint32x4_t magnitude = vdupq_n_u32(0x7FFFFFFF);
  float32x4_t v[8];
  // Compared as integers, magnitudes keep their order, with infinities and NaNs above all numbers.
  uint32x4_t top = vdupq_n_u32(0);
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    top = vmaxq_u32(top, vandq_u32(vreinterpretq_u32_f32(v[i]), magnitude));
  }
  const uint32_t bits = vmaxvq_u32(top);
  const float amax = __builtin_bit_cast(float, bits);
  float d = 0;
  int8x16_t q[2] = {vdupq_n_s8(0), vdupq_n_s8(0)};
  if (bits >= 0x7F800000U) {
    d = __builtin_nanf("");
  } else if (amax >= 0x1p-100F) {
    d = activation_scale(amax);
    const float32x4_t id = vdupq_n_f32(127.0F / amax);
    const auto four = [&](int i) { return vmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[i], id))); };
    for (int h = 0; h < 2; ++h) {
      const int16x8_t low = vcombine_s16(four(4 * h), four(4 * h + 1));
      const int16x8_t high = vcombine_s16(four(4 * h + 2), four(4 * h + 3));
      q[h] = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
    }
  }
  vst1q_s8(out.q + 32 * b, q[0]);
  vst1q_s8(out.q + 32 * b + 16, q[1]);
  const int32_t sum_low = vaddlvq_s8(q[0]);
  const int32_t sum_high = vaddlvq_s8(q[1]);
  out.d[b] = d;
  out.d_sum[b] = d * static_cast<float>(sum_low + sum_high);
  out.neg_sum32[b] = -(sum_low + sum_high);
  out.neg_sum16[2 * b] = -sum_low;
  out.neg_sum16[2 * b + 1] = -sum_high;
}

}  // namespace

// All NEON kernels read activations in their natural order.
void round_activations(const float* x, int64_t n, const RoundedRow& out) {
  const int64_t blocks = n / kActivationBlock;
  for (int64_t b = 0; b < blocks; ++b) round_block(x + kActivationBlock * b, b, out);
  const auto rest = static_cast<size_t>(padded(n) / kActivationBlock - blocks);
  std::memset(out.q + 32 * blocks, 0, 32 * rest);
  std::memset(out.d + blocks, 0, 4 * rest);
  std::memset(out.d_sum + blocks, 0, 4 * rest);
  std::memset(out.neg_sum32 + blocks, 0, 4 * rest);
  std::memset(out.neg_sum16 + 2 * blocks, 0, 8 * rest);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
