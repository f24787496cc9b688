// Rounding of blocks of 32 weights to Q4_0: the same source for GPU and CPU.
#ifndef CHIMERE_TRAIN_KERNELS_FOUR_BITS_H_
#define CHIMERE_TRAIN_KERNELS_FOUR_BITS_H_

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define CHIMERE_BOTH __device__ inline
#else
#include "quant/quant.h"
#define CHIMERE_BOTH inline
#endif

namespace chimere::train {

constexpr int kFourBitBlock = 32;

/// A scale as a file holds it.
CHIMERE_BOTH float stored_scale(float d) {
#ifdef __CUDACC__
  return __half2float(__float2half_rn(d));
#else
  return quant::f16_to_f32(quant::f32_to_f16(d));
#endif
}

/// The level (-8 to 7) of x at 1 / scale.
CHIMERE_BOTH float four_bit_level(float x, float inverse) {
  const float level = rintf(x * inverse);
  return level < -8.0F ? -8.0F : (level > 7.0F ? 7.0F : level);
}

/// The scale with the least squared error of the five that put the element of largest magnitude at
/// or near an end of the range (levels -8, -7 and 7 exactly, and between). The largest of the
/// rounded elements then stands at -8, -7 or 7, so that the same scale is found again for them:
/// rounding is idempotent.
CHIMERE_BOTH float four_bit_scale(const float* x) {
  float extreme = 0;
  for (int i = 0; i < kFourBitBlock; ++i) {
    if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
  }
  const float places[] = {-8.0F, -7.0F, 7.0F, -7.55F, -8.45F};
  float best = 0, least = INFINITY;
  for (const float place : places) {
    const float d = stored_scale(extreme / place);
    const float inverse = d == 0 ? 0.0F : 1.0F / d;
    float error = 0;
    for (int i = 0; i < kFourBitBlock; ++i) {
      const float e = x[i] - d * four_bit_level(x[i], inverse);
      error += e * e;
    }
    if (error < least) {
      least = error;
      best = d;
    }
  }
  return best;
}

/// out = x + share (rounded(x) - x) for one block; share 1 gives exactly the rounded values. `out`
/// may be `x`.
CHIMERE_BOTH void round_four_bit_block(const float* x, float* out, float share) {
  float v[kFourBitBlock];
  for (int i = 0; i < kFourBitBlock; ++i) v[i] = x[i];
  const float d = four_bit_scale(v), inverse = d == 0 ? 0.0F : 1.0F / d;
  for (int i = 0; i < kFourBitBlock; ++i) {
    const float rounded = d * four_bit_level(v[i], inverse);
    out[i] = share == 1.0F ? rounded : v[i] + share * (rounded - v[i]);
  }
}

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_KERNELS_FOUR_BITS_H_
