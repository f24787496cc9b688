// Device code: products of chunk rows on tensor cores. A block of 256 threads computes a tile of
// 128 rows of weights and kColumns rows of activations; of 64 elements at a time, weights are
// decoded to bytes in shared memory, straight from their packed form, and met by the rounded
// activations there. The chunk class's order of sums (docs/numerics.md, rule 9): one chain per
// output in rising order of the scale groups, acc = fma(float(dot_g), s_g * d_x, acc), then, for
// the formats with a minimum, acc = fma(-m_g, d_x * float(sum_g), acc). dot_g is exact, so a row's
// result depends on nothing but the row.
#ifndef CHIMERE_KERNELS_CUDA_CHUNK_TILE_H_
#define CHIMERE_KERNELS_CUDA_CHUNK_TILE_H_

#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/chunk_tile_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/integer_mma.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// The weights of a tile as one thread sees them: it fetches the row threadIdx.x / 2.
struct ChunkWeights {
  PackedRow row;
  DType type;
  const uint32_t* codebook;  ///< of the type, in shared memory
  int group;                 ///< scale_group() of all types in the tile
  bool minimum;              ///< any of them has one
};

/// A block of 32 weights as loaded: one group of 32 or two of 16.
struct RawBlock {
  AnyRaw first;
  AnyRaw second;
};

__device__ __forceinline__ RawBlock load_block(const ChunkWeights& w, int block) {
  RawBlock raw = {};
  if (w.group == 32) {
    raw.first = load_any(w.type, w.row, block);
  } else {
    raw.first = load_any(w.type, w.row, 2 * block);
    raw.second = load_any(w.type, w.row, 2 * block + 1);
  }
  return raw;
}

/// Products of a tile: acc[m][n] holds c of the fragment (ptx/integer_mma.h) of weight rows 32
/// (warp / 2) + 16 m and activation rows kColumns / 2 (warp % 2) + 8 n.
template <int kColumns>
struct ChunkTile {
  static constexpr int kFragments = kColumns / 16;
  using Stage = ChunkStage<kColumns>;
  using Sums = float[2][kFragments][4];

  /// What a thread has fetched for the next 64 elements.
  struct Fetched {
    RawBlock weights;
    uint4 x[(kColumns + 63) / 64];
    RoundedBlock block;
  };

  /// tile_rows [kColumns], in shared memory: the rows of x (x_blocks blocks each), -1 for none.
  /// Ends with a barrier behind the last use of `stages`.
  static __device__ __forceinline__ void multiply(Stage* stages, const ChunkWeights& w,
                                                  const RoundedRows& x, int x_blocks,
                                                  const int* tile_rows, Sums& acc) {
    const int blocks = w.row.blocks;
#pragma unroll
    for (int i = 0; i < 2 * kFragments * 4; ++i) (&acc[0][0][0])[i] = 0;
    Fetched next;
    fetch(w, x, x_blocks, tile_rows, 0, next);
    put(w, next, stages[0]);
    __syncthreads();
    for (int b = 0, step = 0; b < blocks; b += 2, ++step) {
      const bool more = b + 2 < blocks;
      if (more) fetch(w, x, x_blocks, tile_rows, b + 2, next);
      multiply_stage(stages[step % 2], w, acc);
      if (more) put(w, next, stages[(step + 1) % 2]);
      __syncthreads();
    }
  }

 private:
  static __device__ __forceinline__ void fetch(const ChunkWeights& w, const RoundedRows& x,
                                               int x_blocks, const int* tile_rows, int first_block,
                                               Fetched& to) {
    const int thread = static_cast<int>(threadIdx.x);
    const int blocks = w.row.blocks;
    to.weights = {};
    if (first_block + thread % 2 < blocks) to.weights = load_block(w, first_block + thread % 2);
#pragma unroll
    for (int i = 0; i < (kColumns + 63) / 64; ++i) {
      const int unit = thread + i * kChunkThreads;  // of 16 bytes, four in a row
      to.x[i] = {0, 0, 0, 0};
      if (unit >= 4 * kColumns || first_block + unit % 4 / 2 >= blocks) continue;
      const int row = tile_rows[unit / 4];
      if (row < 0) continue;
      const int8_t* q = x.q + (static_cast<int64_t>(row) * x_blocks + first_block) * 32;
      to.x[i] = reinterpret_cast<const uint4*>(q)[unit % 4];
    }
    to.block = {0, {0, 0}};
    if (thread < 2 * kColumns && first_block + thread % 2 < blocks) {
      const int row = tile_rows[thread / 2];
      if (row >= 0) {
        to.block = x.blocks[static_cast<int64_t>(row) * x_blocks + first_block + thread % 2];
      }
    }
  }

  static __device__ __forceinline__ void put(const ChunkWeights& w, const Fetched& from,
                                             Stage& stage) {
    const int thread = static_cast<int>(threadIdx.x);
    const int row = thread / 2;
    const int block = thread % 2;
    Group<32> group = {};
    expand_any(w.type, from.weights.first, w.codebook, group);
    auto* to = reinterpret_cast<uint4*>(stage.w + row * kChunkStride + block * 32);
    to[0] = {group.q[0], group.q[1], group.q[2], group.q[3]};
    if (w.group == 32) {
      to[1] = {group.q[4], group.q[5], group.q[6], group.q[7]};
      stage.scales[block][row] = {group.scale, group.minimum};
    } else {
      stage.scales[2 * block][row] = {group.scale, group.minimum};
      expand_any(w.type, from.weights.second, w.codebook, group);
      to[1] = {group.q[0], group.q[1], group.q[2], group.q[3]};
      stage.scales[2 * block + 1][row] = {group.scale, group.minimum};
    }
#pragma unroll
    for (int i = 0; i < (kColumns + 63) / 64; ++i) {
      const int unit = thread + i * kChunkThreads;
      if (unit >= 4 * kColumns) continue;
      *reinterpret_cast<uint4*>(stage.x + unit / 4 * kChunkStride + unit % 4 * 16) = from.x[i];
    }
    if (thread >= 2 * kColumns) return;
    const float d = from.block.d;
    stage.d[block][row] = d;
    if (w.group == 32) {
      stage.sums[block][row] = d * static_cast<float>(from.block.sums[0] + from.block.sums[1]);
    } else {
      stage.sums[2 * block][row] = d * static_cast<float>(from.block.sums[0]);
      stage.sums[2 * block + 1][row] = d * static_cast<float>(from.block.sums[1]);
    }
  }

  /// acc of fragment (m, n) takes the products c of scale group g, which lies in block `block`.
  static __device__ __forceinline__ void add(const Stage& stage, const ChunkWeights& w, int g,
                                             int block, int first_column,
                                             const ScaleAndMinimum (&scales)[2],
                                             const int32_t (&c)[4], float (&acc)[4]) {
    const auto d = *reinterpret_cast<const float2*>(&stage.d[block][first_column]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float dot = __int_as_float(c[i]) - kMagic;
      acc[i] = fmaf(dot, scales[i / 2].x * (i % 2 == 0 ? d.x : d.y), acc[i]);
    }
    if (!w.minimum) return;
    const auto sums = *reinterpret_cast<const float2*>(&stage.sums[g][first_column]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      acc[i] = fmaf(-scales[i / 2].y, i % 2 == 0 ? sums.x : sums.y, acc[i]);
    }
  }

  static __device__ __forceinline__ void multiply_stage(const Stage& stage, const ChunkWeights& w,
                                                        Sums& acc) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int group = static_cast<int>(threadIdx.x) % kWarp / 4;
    const int part = static_cast<int>(threadIdx.x) % 4;
    const int first_row = 32 * (warp / 2) + group;
    const int first_column = kColumns / 2 * (warp % 2);
    auto word = [&](const uint8_t* bytes, int row, int at) {
      return *reinterpret_cast<const uint32_t*>(bytes + row * kChunkStride + at + 4 * part);
    };
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      uint32_t a[2][4];
      ScaleAndMinimum scales[2][2][2];  // [half of the block][m][row]
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          a[m][i] = word(stage.w, first_row + 16 * m + 8 * (i % 2), 32 * block + 16 * (i / 2));
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int row = first_row + 16 * m + 8 * i;
          if (w.group == 32) {
            scales[0][m][i] = stage.scales[block][row];
          } else {
            scales[0][m][i] = stage.scales[2 * block][row];
            scales[1][m][i] = stage.scales[2 * block + 1][row];
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
        const int column = first_column + 8 * n;
        const uint32_t b[2] = {word(stage.x, column + group, 32 * block),
                               word(stage.x, column + group, 32 * block + 16)};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          int32_t c[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
          if (w.group == 32) {
            mma_k32(a[m], b, c);
            add(stage, w, block, block, column + 2 * part, scales[0][m], c, acc[m][n]);
          } else {
            mma_k16(a[m][0], a[m][1], b[0], c);
            add(stage, w, 2 * block, block, column + 2 * part, scales[0][m], c, acc[m][n]);
            int32_t second[4] = {kMagicBits, kMagicBits, kMagicBits, kMagicBits};
            mma_k16(a[m][2], a[m][3], b[1], second);
            add(stage, w, 2 * block + 1, block, column + 2 * part, scales[1][m], second, acc[m][n]);
          }
        }
      }
    }
  }

  // 1.5 * 2^23: a sum of products that begins there is, as bits, a float that much larger. Its
  // magnitude is below 2^21 (32 * 128 * 127), so that the float's subtraction is exact.
  static constexpr float kMagic = 12582912.0F;
  static constexpr int32_t kMagicBits = 0x4B400000;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CHUNK_TILE_H_
