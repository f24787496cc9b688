// Device code: rule 3 of docs/numerics.md, for kernels whose results are activations of a product.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDING_H_
#define CHIMERE_KERNELS_CUDA_ROUNDING_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Rounds a block whose element `lane` is x; all lanes of the warp take part. `block` counts the
/// blocks of all rows.
__device__ __forceinline__ void round_block(float x, int lane, int64_t block,
                                            const RoundedRows& out) {
  // An infinity or NaN has a larger bit pattern than any number, so that the largest pattern shows
  // it.
  uint32_t bits = __float_as_uint(fabsf(x));
  for (int h = 16; h > 0; h /= 2) bits = max(bits, __shfl_xor_sync(kFullWarp, bits, h));
  const float amax = __uint_as_float(bits);
  float d = 0;
  int q = 0;
  if (bits >= 0x7F800000U) {
    d = __uint_as_float(0x7FC00000U);
  } else if (amax >= 0x1p-100F) {
    uint32_t scale = __float_as_uint(amax / 127.0F);
    scale += 0xFFFU + ((scale >> 13U) & 1U);
    d = __uint_as_float(scale & ~0x1FFFU);
    q = __float2int_rn(x * (127.0F / amax));
  }
  int sum = q;
  for (int h = 8; h > 0; h /= 2) sum += __shfl_xor_sync(kFullWarp, sum, h);
  const int second = __shfl_sync(kFullWarp, sum, 16);
  out.q[block * kWarp + lane] = static_cast<int8_t>(q);
  if (lane == 0) {
    out.blocks[block] = {d, {static_cast<int16_t>(sum), static_cast<int16_t>(second)}};
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROUNDING_H_
