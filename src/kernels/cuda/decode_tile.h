// Device code: tiles of decode rows' products on tensor cores (linear_tile.cu), by blocks of eight
// warps or of sixteen. Warp w computes partial sums 2 w and 2 w + 1 of rule 4; of sixteen, partial
// sum w.
//
// multiply_tile() takes every type; decode_matrices.h has faster products for the types of most
// models.
#ifndef CHIMERE_KERNELS_CUDA_DECODE_TILE_H_
#define CHIMERE_KERNELS_CUDA_DECODE_TILE_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/fragment_codec.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/linear_decode_args.h"
#include "kernels/cuda/ptx/integer_mma.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kWideTileWarps = kPartials;

/// The rows of x that are a tile's columns. Column c is row first + c of the row set; beyond the
/// end, the last row is repeated (with tiled x, the memory there is read: columns do not mix).
struct TileColumns {
  static constexpr bool kStaged = false;
  RoundedRows x;
  const int32_t* row_ids;
  int rows;
  int first;
  int blocks;  ///< blocks of 32 per row
};

/// The columns of a block's tiles in shared memory, laid out like RoundedRows' tiles. With
/// LinearDecodeArgs::totals, the blocks' sums are replaced (BlockTotal).
struct StagedColumns {
  static constexpr bool kStaged = true;
  const int8_t* q;
  const RoundedBlock* of_blocks;
  int blocks;
};

/// What replaces a RoundedBlock once, so that it is not computed for each weight row.
struct alignas(8) BlockTotal {
  float d;
  float total;  ///< d * float(sum of the 32 integers)
};
static_assert(sizeof(BlockTotal) == sizeof(RoundedBlock));

/// A warp's sums. p[p][row tile][element of the fragment] belongs to partial sum 2 w + p; of
/// sixteen warps, p[0] to partial sum w.
template <int kRowTiles>
struct TileSums {
  float p[2][kRowTiles][4];
};

/// A lane's fragment of 32 elements of eight rows of x.
struct ColumnFragment {
  uint2 q;
  RoundedBlock blocks[2];  ///< of columns 2 part and 2 part + 1
};

/// Block `block` of row tile `tile` of the columns.
__device__ __forceinline__ ColumnFragment load_columns(const TileColumns& x, int tile, int block) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int column = x.first + tile * kRoundedTile;
  ColumnFragment f;
  if (x.row_ids == nullptr && x.x.tile_q != nullptr) {
    const int64_t at =
        (static_cast<int64_t>(column / kRoundedTile) * x.blocks + block) * kRoundedTile;
    f.q = reinterpret_cast<const uint2*>(x.x.tile_q + at * 32)[lane];
    const uint4 pair = reinterpret_cast<const uint4*>(x.x.tile_blocks + at)[lane % 4];
    __builtin_memcpy(f.blocks, &pair, sizeof pair);
  } else {
    auto row = [&](int c) {
      const int index = min(column + c, x.rows - 1);
      return static_cast<int64_t>(x.row_ids == nullptr ? index : x.row_ids[index]) * x.blocks +
             block;
    };
    f.q = reinterpret_cast<const uint2*>(x.x.q + row(lane / 4) * 32)[lane % 4];
    f.blocks[0] = x.x.blocks[row(lane % 4 * 2)];
    f.blocks[1] = x.x.blocks[row(lane % 4 * 2 + 1)];
  }
  return f;
}

__device__ __forceinline__ ColumnFragment load_columns(const StagedColumns& x, int tile,
                                                       int block) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int at = (tile * x.blocks + block) * kRoundedTile;
  ColumnFragment f;
  f.q = reinterpret_cast<const uint2*>(x.q + at * 32)[lane];
  const uint4 pair = reinterpret_cast<const uint4*>(x.of_blocks + at)[lane % 4];
  __builtin_memcpy(f.blocks, &pair, sizeof pair);
  return f;
}

// 1.5 * 2^23. An integer sum that starts at these bits is, read as a float, kDotBias plus the sum:
// the magnitude is below 2^21 (32 * 128 * 127), so the float subtraction is exact.
inline constexpr float kDotBias = 12582912.0F;
inline constexpr int32_t kDotBiasBits = 0x4B400000;

/// Adds a scale group to acc. c: the tensor core's result, accumulated from kDotBiasBits.
template <bool kMinimum>
__device__ __forceinline__ void add_dots(const int32_t (&c)[4], const float (&scale)[2],
                                         const float (&minimum)[2], const float (&d)[2],
                                         const float (&sums)[2], float (&acc)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float dot = __int_as_float(c[i]) - kDotBias;
    acc[i] = fmaf(dot, scale[i / 2] * d[i % 2], acc[i]);
    if constexpr (kMinimum) acc[i] = fmaf(-minimum[i / 2], sums[i % 2], acc[i]);
  }
}

/// Adds group 2 block + half of 16 to acc.
template <DType kType>
__device__ __forceinline__ void add_half(const uint8_t* own, int stride, const StagedColumns& x,
                                         int block, int half, float (&acc)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int part = lane % 4;
  const int at = block * kRoundedTile;
  const uint32_t columns =
      reinterpret_cast<const uint32_t*>(x.q + at * 32)[lane / 4 * 8 + half * 4 + part];
  const float d[2] = {x.of_blocks[at + 2 * part].d, x.of_blocks[at + 2 * part + 1].d};
  HalfFragment w[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    w[i] = HalfFragmentCodec<kType>::load(SharedRow{own + 8 * i * stride, x.blocks},
                                          2 * block + half, part);
  }
  int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
  mma_k16(w[0].q, w[1].q, columns, c);
  const float scale[2] = {w[0].scale, w[1].scale};
  const float none[2] = {0, 0};
  add_dots<false>(c, scale, none, d, none, acc);
}

/// The sums of all groups of this warp. Weight row i of the tile begins at weights + i * stride.
template <DType kType, int kRowTiles, int kWarps = kTileWarps, class Columns>
__device__ __forceinline__ void multiply_tile(const uint8_t* weights, int stride, const Columns& x,
                                              const uint32_t* codebook, TileSums<kRowTiles>& sums) {
  using F = FragmentCodec<kType>;
  constexpr bool kMinimum = has_minimum(kType);
  constexpr bool kWide = kWarps == kWideTileWarps;
  static_assert(kWide || kWarps == kTileWarps);
  constexpr bool kByHalves = HalfFragmentCodec<kType>::kExists && Columns::kStaged;
  const int warp = static_cast<int>(threadIdx.x) / kWarp % kWarps;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int part = lane % 4;
  const uint8_t* const own = weights + lane / 4 * stride;
  const auto add_blocks = [&](int begin) CHIMERE_INLINED {
#pragma unroll
    for (int u = 0; u < (kWide && F::kHalves == 1 ? 1 : 2); ++u) {
      // Groups of 32: the block of partial sum 2 w + u, or w. Groups of 16: a block with the groups
      // of both sums, or of w and of a neighbour.
      const int block = begin + (F::kHalves == 2 ? kTileWarps * u + (kWide ? warp / 2 : warp)
                                 : kWide         ? warp
                                                 : 2 * warp + u);
      if (block >= x.blocks) break;
      if constexpr (kByHalves) {
        static_assert(kRowTiles == 1 && F::kHalves == 2 && !kMinimum);
#pragma unroll
        for (int i = 0; i < (kWide ? 1 : 2); ++i) {
          add_half<kType>(own, stride, x, block, kWide ? warp % 2 : i, sums.p[i][0]);
        }
      } else {
        ColumnFragment columns[kRowTiles];
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) columns[n] = load_columns(x, n, block);
        WeightFragment<F::kHalves> w[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          F::load(SharedRow{own + 8 * i * stride, x.blocks}, block, part, codebook, w[i]);
        }
#pragma unroll
        for (int half = 0; half < F::kHalves; ++half) {
          if (kWide && F::kHalves == 2 && half != warp % 2) continue;
          // The product of one half has zeros in place of the other half.
          const bool mine = F::kHalves == 1 || part / 2 == half;
          const uint32_t a[4] = {mine ? w[0].q[0] : 0, mine ? w[1].q[0] : 0, mine ? w[0].q[1] : 0,
                                 mine ? w[1].q[1] : 0};
          const float scale[2] = {w[0].scale[half], w[1].scale[half]};
          const float minimum[2] = {w[0].minimum[half], w[1].minimum[half]};
#pragma unroll
          for (int n = 0; n < kRowTiles; ++n) {
            const ColumnFragment& f = columns[n];
            const uint32_t b[2] = {f.q.x, f.q.y};
            int32_t c[4] = {kDotBiasBits, kDotBiasBits, kDotBiasBits, kDotBiasBits};
            mma_k32(a, b, c);
            const float d[2] = {f.blocks[0].d, f.blocks[1].d};
            float total[2] = {0, 0};
            if constexpr (kMinimum) {
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const int sum = F::kHalves == 1 ? f.blocks[i].sums[0] + f.blocks[i].sums[1]
                                                : f.blocks[i].sums[half];
                total[i] = d[i] * static_cast<float>(sum);
              }
            }
            add_dots<kMinimum>(c, scale, minimum, d, total,
                               sums.p[kWide             ? 0
                                      : F::kHalves == 1 ? u
                                                        : half][n]);
          }
        }
      }
    }
  };
  if constexpr (kWide) {
    [[maybe_unused]] constexpr int kAtOnce =
        F::kHalves == 1 ? 2 : 1;  // as many as fit in 64 registers
#pragma unroll kAtOnce
    for (int begin = 0; begin < x.blocks; begin += kPartials) add_blocks(begin);
  } else {
    for (int begin = 0; begin < x.blocks; begin += kPartials) add_blocks(begin);
  }
}

/// Floats of a row tile's partial sums in memory written by share_partials().
inline constexpr int kSharedPartials = kPartials * 128;

/// Writes the partial sums of a block of kWarps warps to shared `memory`, kSharedPartials floats
/// for each row tile, which may be that of the weights. Synchronises the block before and after.
template <int kWarps, int kRowTiles>
__device__ __forceinline__ void share_partials(const TileSums<kRowTiles>& sums, float* memory) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    float* const of_tile = memory + n * kSharedPartials;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = i * kWarps * kWarp + thread;
      if constexpr (kWarps == kWideTileWarps) {
        of_tile[at] = sums.p[0][n][i];
      } else {
        reinterpret_cast<float2*>(of_tile)[at] = make_float2(sums.p[0][n][i], sums.p[1][n][i]);
      }
    }
  }
  __syncthreads();
}

/// The tree of 16 for element i of the fragment of lane `lane`, from a row tile's memory written by
/// share_partials().
template <int kWarps>
__device__ __forceinline__ float sum_of_element(const float* memory, int i, int lane) {
  float s[kPartials];
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const int at = (i * kWarps + warp) * kWarp + lane;
    if constexpr (kWarps == kWideTileWarps) {
      s[warp] = memory[at];
    } else {
      const float2 both = reinterpret_cast<const float2*>(memory)[at];
      s[2 * warp] = both.x;
      s[2 * warp + 1] = both.y;
    }
  }
#pragma unroll
  for (int p = 0; p < 8; ++p) s[p] = s[p] + s[p + 8];
#pragma unroll
  for (int p = 0; p < 4; ++p) s[p] = s[p] + s[p + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

/// Writes all partial sums of the block to shared `memory`, which may be that of the weights:
/// kPartials of kTileStride floats per column. Synchronises the block before and after.
template <int kRowTiles, int kWarps = kTileWarps>
__device__ __forceinline__ void share_sums(const TileSums<kRowTiles>& sums, float* memory) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();
#pragma unroll
  for (int p = 0; p < kPartials / kWarps; ++p) {
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = kRoundedTile * n + lane % 4 * 2 + i % 2;
        memory[((kPartials / kWarps * warp + p) * kRowTiles * kRoundedTile + column) * kTileStride +
               lane / 4 + i / 2 * 8] = sums.p[p][n][i];
      }
    }
  }
  __syncthreads();
}

/// The tree of 16 for output `output` of column `column`, from memory written by share_sums().
template <int kRowTiles>
__device__ __forceinline__ float sum_of(const float* memory, int column, int output) {
  float s[kPartials];
#pragma unroll
  for (int p = 0; p < kPartials; ++p) {
    s[p] = memory[(p * kRowTiles * kRoundedTile + column) * kTileStride + output];
  }
#pragma unroll
  for (int p = 0; p < 8; ++p) s[p] = s[p] + s[p + 8];
#pragma unroll
  for (int p = 0; p < 4; ++p) s[p] = s[p] + s[p + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DECODE_TILE_H_
