// Device code shared by moe_decode.cu and moe_rows.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_MOE_DEVICE_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Rows of x from row `row` on.
__device__ __forceinline__ RoundedRows rows_from(const RoundedRows& x, int64_t row, int blocks) {
  RoundedRows rows;
  rows.q = x.q + row * blocks * 32;
  rows.blocks = x.blocks + row * blocks;
  return rows;
}

/// Starts copying a row of x to shared memory; this is thread `thread` of `threads`.
__device__ __forceinline__ void copy_rounded_row(const RoundedRows& x, int blocks, int thread,
                                                 int threads, const RoundedRows& to) {
  const auto copy = [&]<int kBytes>(void* shared, const void* from, int bytes) CHIMERE_INLINED {
#pragma unroll 1
    for (int i = kBytes * thread; i < bytes; i += kBytes * threads) {
      copy_async<kBytes>(static_cast<uint8_t*>(shared) + i, static_cast<const uint8_t*>(from) + i);
    }
  };
  copy.template operator()<16>(to.q, x.q, blocks * 32);
  copy.template operator()<8>(to.blocks, x.blocks, blocks * static_cast<int>(sizeof(RoundedBlock)));
}

/// The row of x stored at `at` in shared memory, aligned to 16 bytes.
__device__ __forceinline__ RoundedRows rounded_row_in(uint8_t* at, int blocks) {
  RoundedRows row;
  row.q = reinterpret_cast<int8_t*>(at);
  row.blocks = reinterpret_cast<RoundedBlock*>(at + blocks * 32);
  return row;
}

/// The trees of 16 of kRows sums per lane, with the bits of tree_of_16(): lane l of a half warp
/// gets result l / (16 / kRows).
template <int kRows>
__device__ __forceinline__ float trees_of_16(float (&acc)[kRows], int lane) {
#pragma unroll
  for (int n = kRows / 2; n > 0; n /= 2) {
    const int distance = 16 * n / kRows;
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const float own = upper ? acc[n + i] : acc[i];
      const float given = upper ? acc[i] : acc[n + i];
      acc[i] = own + __shfl_xor_sync(kFullWarp, given, distance);
    }
  }
#pragma unroll
  for (int distance = 8 / kRows; distance > 0; distance /= 2) {
    acc[0] = acc[0] + __shfl_xor_sync(kFullWarp, acc[0], distance);
  }
  return acc[0];
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_DEVICE_H_
