// Device code: products of prefill rows on tensor cores. A block of 256 threads computes a tile of
// 128 weight rows by up to 128 activation rows, 64 elements at a time. Weights are decoded from
// their packed form to f16 in shared memory, activations are copied there as f16, and sums are f32.
// docs/numerics.md, rule 9, defines the operands. An output's products are added 16 at a time in
// rising order, independent of the tile's other rows, so a row's result depends on that row only.
//
// While one stage is multiplied, the activations of the next stage are copied to shared memory and
// the weights of the stage after it are loaded to registers. Compute capability 9.0 uses warpgroup
// products, which need no further instructions of the warps; others use warp products.
#ifndef CHIMERE_KERNELS_CUDA_PREFILL_TILE_H_
#define CHIMERE_KERNELS_CUDA_PREFILL_TILE_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/prefill_tile_args.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/float16.h"
#include "kernels/cuda/ptx/half_mma.h"
#include "kernels/cuda/ptx/half_pair.h"
#include "kernels/cuda/ptx/matrix_load.h"
#include "kernels/cuda/ptx/warpgroup_mma.h"

namespace chimere::kernels::cuda {

/// The weights of a tile, for one thread: it decodes row threadIdx.x / 2.
struct TileWeights {
  KeptRow row;
  DType type;
  const uint32_t* codebook;  ///< the type's codebook, in shared memory
};

/// The two pipeline stages in a block's dynamic shared memory.
__device__ __forceinline__ TileStage* stages_in(uint8_t* shared) {
  constexpr auto kAlign = static_cast<uintptr_t>(alignof(TileStage));
  const auto address = reinterpret_cast<uintptr_t>(shared);
  return reinterpret_cast<TileStage*>(shared + ((kAlign - address % kAlign) % kAlign));
}

/// The activations of a tile.
struct TileRows {
  HalfRows rows;
  int pitch;       ///< elements between rows
  const int* ids;  ///< [kTileRows], in shared memory: row indices
  int count;
};

/// A thread's part of a tile: fragments of 8 activation rows, sums[4 f + i] being c[i] of
/// ptx/half_mma.h. Warp products: 2 fragments of weight rows, 32 (warp / 2) + 16 m, by 8 of
/// activation rows; f = 8 m + 2 j + e covers rows 32 j + 16 (warp % 2) + 8 e. Warpgroup products:
/// weight rows 16 warp .. and all activation rows, 8 f ...
using TileSums = float[64];

/// The weight row and the activation row of sums[at] within the tile.
__device__ __forceinline__ int tile_output(int at) {
  const int thread = static_cast<int>(threadIdx.x);
  const int first =
      kHasWarpgroupMma ? thread / kWarp * 16 : thread / (2 * kWarp) * 32 + 16 * (at / 32);
  return first + thread % kWarp / 4 + 8 * (at % 4 / 2);
}
__device__ __forceinline__ int tile_row(int at) {
  const int thread = static_cast<int>(threadIdx.x);
  const int f = at / 4;
  const int first =
      kHasWarpgroupMma ? 8 * f : f % 8 / 2 * 32 + 16 * (thread / kWarp % 2) + f % 2 * 8;
  return first + thread % 4 * 2 + at % 2;
}

/// Offset of unit `unit` of row `row` in a stage, in f16 elements.
__device__ __forceinline__ int tile_unit(int row, int unit) {
  return row * kTileDepth + (unit ^ (row % 8)) * 8;
}

/// A block of 32 weights as loaded: one scale group of 32, or two of 16.
struct RawBlock {
  uint32_t words[12];
};

__device__ __forceinline__ RawBlock load_block(const TileWeights& w, int block) {
  RawBlock any = {};
  if (block >= w.row.blocks) return any;
  const KeptRow here = {w.row.at, opaque(w.row.blocks)};
  with_integer_type(w.type, [&]<DType kType>() CHIMERE_INLINED {
    using C = Codec<kType>;
    typename C::Raw raw[32 / C::kGroup];
#pragma unroll
    for (int i = 0; i < 32 / C::kGroup; ++i) raw[i] = C::load(here, block * (32 / C::kGroup) + i);
    static_assert(sizeof raw <= sizeof any);
    __builtin_memcpy(&any, &raw, sizeof raw);
  });
  return any;
}

__device__ __forceinline__ uint32_t two_of(uint16_t h) { return h * 0x10001U; }

/// Eight weights as f16: two words of a group's integers times its scale, minus its minimum.
__device__ __forceinline__ uint4 half_weights(uint32_t first, uint32_t second, uint32_t scale,
                                              uint32_t minimum) {
  // In f16, 1024 + b has b in its low bits; 1152 is 1024 plus the bias that makes bytes unsigned.
  auto pair = [&](uint32_t biased, uint32_t selector) {
    const uint32_t integers =
        half_pair_less(__byte_perm(biased, 0x64646464U, selector), 0x64806480U);
    return half_pair_fma(integers, scale, minimum);
  };
  first ^= 0x80808080U;
  second ^= 0x80808080U;
  return make_uint4(pair(first, 0x4140U), pair(first, 0x4342U), pair(second, 0x4140U),
                    pair(second, 0x4342U));
}

__device__ __forceinline__ void put_block(const TileWeights& w, const RawBlock& raw, int block,
                                          uint16_t* stage) {
  const int row = static_cast<int>(threadIdx.x) / 2;
  const int unit = static_cast<int>(threadIdx.x) % 2 * 4;
  auto put = [&](int i, const uint4& weights) {
    *reinterpret_cast<uint4*>(stage + tile_unit(row, unit + i)) = weights;
  };
  if (block >= w.row.blocks) {
#pragma unroll
    for (int i = 0; i < 4; ++i) put(i, make_uint4(0, 0, 0, 0));
    return;
  }
  with_integer_type(w.type, [&]<DType kType>() CHIMERE_INLINED {
    using C = Codec<kType>;
    constexpr int kUnits = C::kGroup / 8;
    typename C::Raw raws[32 / C::kGroup];
    __builtin_memcpy(&raws, &raw, sizeof raws);
#pragma unroll
    for (int g = 0; g < 32 / C::kGroup; ++g) {
      Group<C::kGroup> group;
      expand_exact<kType>(raws[g], w.codebook, group);
      const uint32_t scale = two_of(round_f16(group.scale * kHalfWeightUnit));
      const uint32_t minimum =
          has_minimum(kType) ? two_of(round_f16(-(group.minimum * kHalfWeightUnit))) : 0;
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        put(g * kUnits + i, half_weights(group.q[2 * i], group.q[2 * i + 1], scale, minimum));
      }
    }
  });
}

/// Starts copying 64 elements of the tile's activations; zeros beyond the last element and row.
__device__ __forceinline__ void start_rows(const TileRows& x, int first, int n, uint16_t* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  const int unit = thread % 8;
  const bool inside = first + unit * 8 < n;
#pragma unroll
  for (int i = 0; i < kTileRows / (kTileThreads / 8); ++i) {
    const int row = thread / 8 + i * (kTileThreads / 8);
    if (row >= (x.count + 31) / 32 * 32) break;
    const bool there = inside && row < x.count;
    const uint16_t* from =
        x.rows.x + (there ? static_cast<int64_t>(x.ids[row]) * x.pitch + first + unit * 8 : 0);
    start_copy(stage + tile_unit(row, unit), from, there);
  }
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Starts the products of a stage with the first `count` activation rows.
__device__ __forceinline__ void start_products(const TileStage& stage, int count, TileSums& acc) {
  const int first = static_cast<int>(threadIdx.x) / (4 * kWarp) * 64;
  auto of = [&](auto multiply) CHIMERE_INLINED {
#pragma unroll
    for (int k = 0; k < kTileDepth / 16; ++k) {
      multiply(matrix_descriptor(stage.w + first * kTileDepth, 32 * k),
               matrix_descriptor(stage.x, 32 * k));
    }
  };
  begin_products();
  if (count > 96) {
    of([&](uint64_t a, uint64_t b) CHIMERE_INLINED { warpgroup_mma_128(a, b, acc); });
  } else if (count > 64) {
    of([&](uint64_t a, uint64_t b) CHIMERE_INLINED { warpgroup_mma_96(a, b, acc); });
  } else if (count > 32) {
    of([&](uint64_t a, uint64_t b) CHIMERE_INLINED { warpgroup_mma_64(a, b, acc); });
  } else {
    of([&](uint64_t a, uint64_t b) CHIMERE_INLINED { warpgroup_mma_32(a, b, acc); });
  }
  end_products();
}

#else

/// Fragment f of a thread's sums.
__device__ __forceinline__ float (&fragment(TileSums& sums, int f))[4] {
  return *reinterpret_cast<float(*)[4]>(&sums[4 * f]);
}

__device__ __forceinline__ void fence_for_products() {}
__device__ __forceinline__ void wait_for_products() {}

__device__ __forceinline__ void start_products(const TileStage& stage, int count, TileSums& acc) {
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int matrix = thread % kWarp / 8;
  const int first_output = 32 * (warp / 2) + matrix % 2 * 8 + thread % 8;
  const int first_row = 16 * (warp % 2) + matrix / 2 * 8 + thread % 8;
#pragma unroll
  for (int k = 0; k < kTileDepth / 16; ++k) {
    uint32_t a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      load_matrices(stage.w + tile_unit(first_output + 16 * m, 2 * k + matrix / 2), a[m]);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (32 * j + 16 * (warp % 2) >= count) break;
      uint32_t b[4];
      load_matrices(stage.x + tile_unit(first_row + 32 * j, 2 * k + matrix % 2), b);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_f16(a[m], b[0], b[1], fragment(acc, 8 * m + 2 * j));
        mma_f16(a[m], b[2], b[3], fragment(acc, 8 * m + 2 * j + 1));
      }
    }
  }
}

#endif

/// Sums of a tile over its 32 * w.row.blocks elements; multiplied by the row's `unit` they are the
/// products. All threads of the block; ends with a barrier after the last use of `stages`.
__device__ __forceinline__ void multiply_tile(TileStage* stages, const TileWeights& w,
                                              const TileRows& x, TileSums& acc) {
  const int blocks = w.row.blocks;
  const int mine = static_cast<int>(threadIdx.x) % 2;
#pragma unroll
  for (float& sum : acc) sum = 0;
  RawBlock next = load_block(w, mine);
  start_rows(x, 0, blocks * 32, stages[0].x);
  put_block(w, next, mine, stages[0].w);
  next = load_block(w, 2 + mine);
  wait_for_copies();
  fence_for_products();
  __syncthreads();
  for (int b = 0, step = 0; b < blocks; b += 2, ++step) {
    start_products(stages[step % 2], x.count, acc);
    TileStage& later = stages[(step + 1) % 2];
    if (b + 2 < blocks) {
      start_rows(x, (b + 2) * 32, blocks * 32, later.x);
      put_block(w, next, b + 2 + mine, later.w);
      next = load_block(w, b + 4 + mine);
    }
    wait_for_products();
    wait_for_copies();
    fence_for_products();
    __syncthreads();
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PREFILL_TILE_H_
