// Device code of moe_rows.cu: rows of x in shared memory and their products with packed rows.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ROWS_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_MOE_ROWS_DEVICE_H_

#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_device.h"
#include "kernels/cuda/moe_rows_args.h"
#include "kernels/cuda/ptx/async_copy.h"

namespace chimere::kernels::cuda {

/// A matrix of expert `expert`.
template <const uint8_t* ExpertPointers::*kMatrix>
__device__ __forceinline__ const uint8_t* matrix_of(const ExpertTableArgs& table, int expert,
                                                    int64_t step) {
  if (table.regular == 0) return table.experts[expert].*kMatrix;
  return expert < table.n_experts ? table.first.*kMatrix + expert * step : table.last.*kMatrix;
}

/// A row of x in shared memory (moe_rows_x_bytes()).
struct HalvedRow {
  const int8_t* first;
  const int8_t* second;
  const RoundedBlock* blocks;
};

__device__ __forceinline__ HalvedRow halved_row_in(const uint8_t* at, int blocks) {
  const int half = moe_rows_half_bytes(blocks);
  return {reinterpret_cast<const int8_t*>(at), reinterpret_cast<const int8_t*>(at + half),
          reinterpret_cast<const RoundedBlock*>(at + half + 16 * blocks)};
}

/// Starts copying a row of x to shared memory; this is thread `thread` of `threads`.
__device__ __forceinline__ void copy_halved_row(const RoundedRows& x, int blocks, int thread,
                                                int threads, uint8_t* to) {
  const int half = moe_rows_half_bytes(blocks);
  const auto* const q = reinterpret_cast<const uint8_t*>(x.q);
#pragma unroll 1
  for (int i = thread; i < 2 * blocks; i += threads) {
    copy_async<16>(to + (i & 1) * half + 16 * (i >> 1), q + 16 * i);
  }
#pragma unroll 1
  for (int i = thread; i < blocks; i += threads) {
    copy_async<8>(to + half + 16 * blocks + 8 * i, reinterpret_cast<const uint8_t*>(x.blocks + i));
  }
}

/// acc[i] += the partial sums of packed row w[i] with row x[i / (kRows / kXs)], all in shared
/// memory. kAtOnce: groups that are multiplied side by side. When warming the instruction cache,
/// only the first.
template <DType kType, int kAtOnce, int kRows, int kXs>
__device__ __forceinline__ void add_partials(const uint8_t* const (&w)[kRows],
                                             const HalvedRow (&x)[kXs], int blocks,
                                             bool warm_icache, int lane, const uint32_t* codebook,
                                             float (&acc)[kRows]) {
  using C = Codec<kType>;
  constexpr int kStep = 16 * kAtOnce;
  constexpr int kRowsOfX = kRows / kXs;
  const int all = blocks * (32 / C::kGroup);
  const int groups = warm_icache ? min(kStep, all) : all;
  const auto add = [&](int g) CHIMERE_INLINED {
    const int b = C::kGroup == 32 ? g : g >> 1;
#pragma unroll
    for (int k = 0; k < kXs; ++k) {
      GroupOfX of_x = {x[k].first + 16 * b, x[k].second + 16 * b};
      if (C::kGroup == 16 && (g & 1) != 0) of_x.first = of_x.second;
      const RoundedBlock block = x[k].blocks[b];
#pragma unroll
      for (int i = k * kRowsOfX; i < (k + 1) * kRowsOfX; ++i) {
        acc[i] = add_terms<has_minimum(kType)>(
            stored_terms<kType>(C::load(SharedRow{w[i], blocks}, g), codebook, of_x, block, g),
            acc[i]);
      }
    }
  };
  int begin = 0;
  if constexpr (kAtOnce > 1) {
#pragma unroll 1
    for (; begin + kStep <= groups; begin += kStep) {
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) add(begin + lane + 16 * u);
    }
  }
#pragma unroll 1
  for (int g = begin + lane; g < groups; g += 16) add(g);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_DEVICE_H_
