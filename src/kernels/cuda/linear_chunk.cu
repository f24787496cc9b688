// Products of chunk rows with quantised weights. Bytes: each weight once for kColumns rows, from
// the L2 cache but for the first time; what bounds it is the arithmetic around the matrix products,
// three operations for each scale group and output (chunk_tile.h).
#include "kernels/cuda/chunk_tile.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/linear_chunk_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/step_dot.h"

namespace chimere::kernels::cuda {
namespace {

template <int kColumns>
__device__ __forceinline__ void linear_chunk(const LinearChunkArgs& args, uint8_t* shared) {
  __shared__ int tile_rows[kColumns];
  using Tile = ChunkTile<kColumns>;
  auto* stages = reinterpret_cast<typename Tile::Stage*>(shared);
  auto* codebook = reinterpret_cast<uint32_t*>(shared + chunk_shared_bytes<kColumns>());
  int index = 0;
  while (index + 1 < args.n_jobs &&
         static_cast<int>(blockIdx.y) >= args.jobs[index + 1].first_tile) {
    ++index;
  }
  const LinearChunkJob& job = args.jobs[index];
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  load_codebook(type, args.codebook, codebook);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.x) * kColumns;
  if (thread < kColumns) {
    const int row = first_row + thread;
    tile_rows[thread] = row >= args.rows ? -1 : args.row_ids == nullptr ? row : args.row_ids[row];
  }
  const int first_output = (static_cast<int>(blockIdx.y) - job.first_tile) * kChunkOutputs;
  // Rows of weights beyond the last one are the last one again; their results go nowhere.
  const int mine = min(first_output + thread / 2, job.n_out - 1);
  const ChunkWeights w = {{job.w + mine * job.row_bytes, args.n_in / 32},
                          type,
                          codebook,
                          scale_group(type),
                          has_minimum(type)};
  wait_for_previous_kernel();
  __syncthreads();
  typename Tile::Sums acc;
  Tile::multiply(stages, w, args.rounded, args.n_in / 32, tile_rows, acc);

  const int warp = thread / kWarp;
  const int group = thread % kWarp / 4;
  const int part = thread % 4;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < Tile::kFragments; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int o = first_output + 32 * (warp / 2) + 16 * m + group + 8 * (i / 2);
        const int row = tile_rows[kColumns / 2 * (warp % 2) + 8 * n + 2 * part + i % 2];
        if (o >= job.n_out || row < 0) continue;
        float* y = job.y + row * job.y_stride + o;
        *y = job.accumulate != 0 ? *y + acc[m][n][i] : acc[m][n][i];
      }
    }
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(linear_chunk_32, kChunkThreads, 2, LinearChunkArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_chunk<32>(args, shared);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_chunk_128, kChunkThreads, 2, LinearChunkArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_chunk<128>(args, shared);
}

}  // namespace chimere::kernels::cuda
