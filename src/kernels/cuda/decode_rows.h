// Device code: integer_partials() of one packed row with several quantised rows. Each group is
// decoded once for all of them. The type is switched on per group instead of per loop: the
// multiplications dominate, and one loop per type, unrolled over eight rows, would be most of the
// program's code.
#ifndef CHIMERE_KERNELS_CUDA_DECODE_ROWS_H_
#define CHIMERE_KERNELS_CUDA_DECODE_ROWS_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/decode_dot.h"

namespace chimere::kernels::cuda {

/// acc[r] += the product of scale group g and row rows[r] of x.
template <int kGroup, bool kMinimum, int kRows>
__device__ __forceinline__ void add_group_of_rows(const Group<32>& decoded, int blocks, int g,
                                                  const RoundedRows& x, const int (&rows)[kRows],
                                                  float (&acc)[kRows]) {
  Group<kGroup> group;
#pragma unroll
  for (int j = 0; j < kGroup / 4; ++j) group.q[j] = decoded.q[j];
  group.scale = decoded.scale;
  group.minimum = decoded.minimum;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t block = static_cast<int64_t>(rows[r]) * blocks + g * kGroup / 32;
    const int8_t* q = x.q + block * 32 + g * kGroup % 32;
    acc[r] =
        add_terms<kMinimum>(group_terms<kGroup, kMinimum, 0>(
                                group_dot<kGroup>(group, group_of_x(q)), group, x.blocks[block], g),
                            acc[r]);
  }
}

/// Partial sums of a packed row's dot products with rows rows[r] of x.
template <int kRows>
__device__ __forceinline__ void integer_partials_of_rows(DType type, const PackedRow& w, int lane,
                                                         const RoundedRows& x,
                                                         const int (&rows)[kRows],
                                                         const uint32_t* codebook,
                                                         float (&acc)[kRows]) {
  const bool minimum = has_minimum(type);
  const int group = scale_group(type);
  const int groups = w.blocks * (32 / group);
  AnyRaw next = {};
  if (lane < groups) next = load_any(type, w, lane);
  wait_for_previous_kernel();
  for (int g = lane; g < groups; g += 16) {
    const AnyRaw raw = next;
    if (g + 16 < groups) next = load_any(type, w, g + 16);
    Group<32> decoded;
    expand_any(type, raw, codebook, decoded);
    if (group == 32) {
      if (minimum) {
        add_group_of_rows<32, true>(decoded, w.blocks, g, x, rows, acc);
      } else {
        add_group_of_rows<32, false>(decoded, w.blocks, g, x, rows, acc);
      }
    } else if (minimum) {
      add_group_of_rows<16, true>(decoded, w.blocks, g, x, rows, acc);
    } else {
      add_group_of_rows<16, false>(decoded, w.blocks, g, x, rows, acc);
    }
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DECODE_ROWS_H_
