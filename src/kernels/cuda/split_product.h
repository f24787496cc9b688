// Products of f32 matrices on tensor cores as split sums (docs/numerics.md, "gdn_scan, a chunk on
// GPUs"), for one warp.
#ifndef CHIMERE_KERNELS_CUDA_SPLIT_PRODUCT_H_
#define CHIMERE_KERNELS_CUDA_SPLIT_PRODUCT_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/float_mma.h"

namespace chimere::kernels::cuda {

/// a as the sum of two tf32 values and a remainder below 2^-21 of it.
struct Parts {
  uint32_t high;
  uint32_t low;
};
__device__ __forceinline__ Parts parts_of(float a) {
  const uint32_t high = __float_as_uint(a) & ~0x1FFFU;
  return {high, __float_as_uint(a - __uint_as_float(high))};
}

/// Sums of 16 rows by 8 kFragments columns. A lane holds, of fragment f, columns 8 f + 2 (lane % 4)
/// and the next one of rows lane / 4 ([0], [1]) and lane / 4 + 8 ([2], [3]).
template <int kFragments>
using ColumnFragments = float[kFragments][4];

/// c += a m over 16 elements. A lane has elements 4 part .. 4 part + 3 of rows group and group + 8
/// of a; m: 16 rows of 8 kFragments columns in shared memory, kStride floats apart. All lanes use
/// the same order of elements.
template <int kStride, int kFragments>
__device__ __forceinline__ void add_product(const float4& first, const float4& second,
                                            const float* m, float (&c)[kFragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* at = m + lane % 4 * 4 * kStride + lane / 4;
  const float rows[2][4] = {{first.x, second.x, first.y, second.y},
                            {first.z, second.z, first.w, second.w}};
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    uint32_t high[4];
    uint32_t low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Parts parts = parts_of(rows[e][i]);
      high[i] = parts.high;
      low[i] = parts.low;
    }
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      const Parts b0 = parts_of(at[2 * e * kStride + 8 * f]);
      const Parts b1 = parts_of(at[(2 * e + 1) * kStride + 8 * f]);
      const uint32_t b_high[2] = {b0.high, b1.high};
      const uint32_t b_low[2] = {b0.low, b1.low};
      mma_tf32(low, b_high, c[f]);
      mma_tf32(high, b_low, c[f]);
      mma_tf32(high, b_high, c[f]);
    }
  }
}

/// Writes c to rows first_row .. of a matrix in shared memory, the rows of a lane times the
/// factors.
template <int kStride, int kFragments>
__device__ __forceinline__ void put_rows(const float (&c)[kFragments][4], int first_row,
                                         float factor_0, float factor_1, float* m) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int f = 0; f < kFragments; ++f) {
    float* at = m + (first_row + lane / 4) * kStride + 8 * f + lane % 4 * 2;
    *reinterpret_cast<float2*>(at) = make_float2(c[f][0] * factor_0, c[f][1] * factor_0);
    *reinterpret_cast<float2*>(at + 8 * kStride) =
        make_float2(c[f][2] * factor_1, c[f][3] * factor_1);
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SPLIT_PRODUCT_H_
