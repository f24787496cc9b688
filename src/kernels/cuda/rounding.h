// Device code: rule 3 of docs/numerics.md, for kernels whose results are activations of a product.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDING_H_
#define CHIMERE_KERNELS_CUDA_ROUNDING_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// A rounded block as its warp has it.
struct RoundedLane {
  int8_t q;  ///< of this lane's element
  RoundedBlock block;
};

/// Rounds a block whose element of this lane is x; all lanes of the warp take part.
__device__ __forceinline__ RoundedLane round_lane(float x) {
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
  return {static_cast<int8_t>(q), {d, {static_cast<int16_t>(sum), static_cast<int16_t>(second)}}};
}

/// Rounds a block whose element `lane` is x; all lanes of the warp take part. `block` counts the
/// blocks of all rows. Not into tiles.
__device__ __forceinline__ void round_block(float x, int lane, int64_t block,
                                            const RoundedRows& out) {
  const RoundedLane rounded = round_lane(x);
  out.q[block * kWarp + lane] = rounded.q;
  if (lane == 0) out.blocks[block] = rounded.block;
}

/// The same of block `block` of `in_row` in row `row`, and into its tile.
__device__ __forceinline__ void round_block_of_row(float x, int lane, int64_t row, int block,
                                                   int in_row, const RoundedRows& out) {
  const RoundedLane rounded = round_lane(x);
  const int64_t at = row * in_row + block;
  out.q[at * kWarp + lane] = rounded.q;
  if (lane == 0) out.blocks[at] = rounded.block;
  if (out.tile_q == nullptr) return;
  const int64_t tiled = (row / kRoundedTile * in_row + block) * kRoundedTile + row % kRoundedTile;
  out.tile_q[tiled * kWarp + lane] = rounded.q;
  if (lane == 0) out.tile_blocks[tiled] = rounded.block;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROUNDING_H_
