// Device code: rule 3 of docs/numerics.md, for kernels that produce activations of a product.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDING_H_
#define CHIMERE_KERNELS_CUDA_ROUNDING_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// A rounded block, held by a warp.
struct RoundedLane {
  int8_t q;  ///< this lane's element
  RoundedBlock block;
};

/// Rounds kBlocks blocks of which this lane holds one element each. All lanes of the warp.
template <int kBlocks>
__device__ __forceinline__ void round_lanes(const float (&x)[kBlocks],
                                            RoundedLane (&rounded)[kBlocks]) {
  // Infinities and NaNs have larger bit patterns than any number, so the largest pattern reveals
  // them.
  uint32_t bits[kBlocks];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    bits[j] = __reduce_max_sync(kFullWarp, __float_as_uint(fabsf(x[j])));
  }
  int q[kBlocks];
  float d[kBlocks];
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    const float amax = __uint_as_float(bits[j]);
    d[j] = 0;
    q[j] = 0;
    if (bits[j] >= 0x7F800000U) {
      d[j] = __uint_as_float(0x7FC00000U);
    } else if (amax >= 0x1p-100F) {
      uint32_t scale = __float_as_uint(amax / 127.0F);
      scale += 0xFFFU + ((scale >> 13U) & 1U);
      d[j] = __uint_as_float(scale & ~0x1FFFU);
      q[j] = __float2int_rn(x[j] * (127.0F / amax));
    }
  }
  // Both sums of a block in one reduction, in the halves of a word.
  const int one = static_cast<int>(threadIdx.x) % kWarp < 16 ? 1 : 1 << 16;
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    const int sums = __reduce_add_sync(kFullWarp, q[j] * one);
    rounded[j].q = static_cast<int8_t>(q[j]);
    rounded[j].block.d = d[j];
    rounded[j].block.sums[0] = static_cast<int16_t>(sums);
    rounded[j].block.sums[1] = static_cast<int16_t>((sums - static_cast<int16_t>(sums)) >> 16);
  }
}

/// Rounds a block whose element `lane` is x. All lanes of the warp. `block` is its index among all
/// rows' blocks. Does not write tiles.
__device__ __forceinline__ void round_block(float x, int lane, int64_t block,
                                            const RoundedRows& out) {
  RoundedLane rounded[1];
  round_lanes({x}, rounded);
  out.q[block * kWarp + lane] = rounded[0].q;
  if (lane == 0) out.blocks[block] = rounded[0].block;
}

/// Stores block `block` of the `in_row` blocks of row `row`, also to its tile if there are tiles.
__device__ __forceinline__ void put_block_of_row(const RoundedLane& rounded, int lane, int64_t row,
                                                 int block, int in_row, const RoundedRows& out) {
  const int64_t at = row * in_row + block;
  out.q[at * kWarp + lane] = rounded.q;
  if (lane == 0) out.blocks[at] = rounded.block;
  if (out.tile_q == nullptr) return;
  const int64_t tiled = (row / kRoundedTile * in_row + block) * kRoundedTile + row % kRoundedTile;
  out.tile_q[tiled * kWarp + lane] = rounded.q;
  if (lane == 0) out.tile_blocks[tiled] = rounded.block;
}

/// Rounds and stores block `block` of the `in_row` blocks of row `row`, also to its tile.
__device__ __forceinline__ void round_block_of_row(float x, int lane, int64_t row, int block,
                                                   int in_row, const RoundedRows& out) {
  RoundedLane rounded[1];
  round_lanes({x}, rounded);
  put_block_of_row(rounded[0], lane, row, block, in_row, out);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROUNDING_H_
