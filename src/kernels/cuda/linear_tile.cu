// Products of several decode rows with quantised weights on tensor cores, with the bits of rule 4
// of docs/numerics.md: the dot product of a scale group is an exact integer product of fragments,
// and each lane keeps the partial sums of its four outputs. A tile has kDecodeTileOutputs packed
// weight rows in shared memory, and kColumns rows of x. Warp w computes partial sums 2 w and 2 w +
// 1, so that warps exchange data only once, in the tree of 16.
//
// Weights are loaded before the previous kernel has ended. linear_tile_8 keeps its rows of x in
// shared memory too, so that a block waits only once for L2. If there are more tiles than resident
// blocks, its blocks stay for the whole launch and share the tiles evenly: while a block multiplies
// one, the copy engine brings the weights of the next, and x is read once per block. Bytes: each
// weight once per kColumns rows; otherwise the rows' integers once per tile, from L2. With at most
// one tile for a multiprocessor, linear_tile_8_wide has sixteen warps for it.
#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/decode_tile.h"
#include "kernels/cuda/fragment_codec.h"
#include "kernels/cuda/linear_decode_device.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/integer_mma.h"

namespace chimere::kernels::cuda {
namespace {

/// Starts copying the block's rows of x to `q` and `of_blocks`, laid out as StagedColumns.
template <int kWarps>
__device__ __forceinline__ void stage_columns(const LinearDecodeArgs& args, int first_row,
                                              WarpCopies& copies, int8_t* q,
                                              RoundedBlock* of_blocks) {
  const int blocks = args.n_in / 32;
  const RoundedRows& x = args.rounded;
  const int thread = static_cast<int>(threadIdx.x);
  if (args.row_ids == nullptr && x.tile_q != nullptr && blocks * kRoundedTile % kWarps == 0) {
    const int share = blocks * kRoundedTile / kWarps;  // of a warp
    const int at = thread / kWarp * share;
    const int64_t from = static_cast<int64_t>(first_row) * blocks + at;
    copies.begin(reinterpret_cast<uint8_t*>(q + at * 32),
                 reinterpret_cast<const uint8_t*>(x.tile_q + from * 32), share * 32);
    copies.begin(reinterpret_cast<uint8_t*>(of_blocks + at),
                 reinterpret_cast<const uint8_t*>(x.tile_blocks + from),
                 share * static_cast<int>(sizeof(RoundedBlock)));
    return;
  }
#pragma unroll 1
  for (int i = thread; i < blocks * kRoundedTile; i += kWarps * kWarp) {
    const int64_t from = static_cast<int64_t>(row_at(args, first_row + i % kRoundedTile)) * blocks +
                         i / kRoundedTile;
    auto* const to = reinterpret_cast<uint8_t*>(q + i * 32);
    const auto* const integers = reinterpret_cast<const uint8_t*>(x.q + from * 32);
    copy_async<16>(to, integers);
    copy_async<16>(to + 16, integers + 16);
    copy_async<8>(reinterpret_cast<uint8_t*>(of_blocks + i),
                  reinterpret_cast<const uint8_t*>(x.blocks + from));
  }
}

/// The first tile of block `block` in x.
__device__ __forceinline__ int first_tile(const LinearDecodeArgs& args, uint32_t block) {
  return static_cast<int>(static_cast<uint64_t>(args.tiles) * block / gridDim.x);
}

/// Computes this block's tiles of 16 outputs by 8 rows, with x in shared memory.
template <int kWarps>
__device__ __forceinline__ void staged_tiles(const LinearDecodeArgs& args, uint8_t* shared) {
  static_assert(kDecodeTileOutputs * kRoundedTile <= kWarps * kWarp);
  __shared__ uint64_t arrived[kWarps * kLinearTileStages];
  __shared__ uint64_t x_arrived[kWarps];
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int first_row = static_cast<int>(blockIdx.y) * kRoundedTile;
  uint8_t* const weights = shared + args.weights_at;
  RingCopies copies(arrived + warp * kLinearTileStages, args.stages);
  WarpCopies x_copies(x_arrived + warp);
  int tile = first_tile(args, blockIdx.x);
  const int end = first_tile(args, blockIdx.x + 1);
  int ahead = tile;  // the tile whose copies start next
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
    if (ahead >= end) return;
    const LinearDecodeJob& job = job_of(args, ahead);
    const int first = (ahead - job.first_block) * kDecodeTileOutputs;
    const auto stride = static_cast<int>(tile_row_stride(job.row_bytes));
#pragma unroll
    for (int i = warp; i < kDecodeTileOutputs; i += kWarps) {
      const int o = min(first + i, job.n_out - 1);
      copies.begin(stage, weights + stage * args.stage_bytes + i * stride,
                   job.w + o * job.row_bytes, static_cast<int>(job.row_bytes));
    }
    ++ahead;
  };
#pragma unroll 1
  for (int i = 0; i < args.stages; ++i) copy_next(i);
  // All tiles of a block have the same codebook.
  auto* const codebook = reinterpret_cast<uint32_t*>(shared);
  copy_codebook(codebook_place(static_cast<DType>(job_of(args, tile).type)), args.codebook,
                codebook);
  wait_for_previous_kernel();
  auto* const q = reinterpret_cast<int8_t*>(shared + args.x_at);
  auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kRoundedTile * args.n_in);
  const StagedColumns x = {q, of_blocks, args.n_in / 32};
  stage_columns<kWarps>(args, first_row, x_copies, q, of_blocks);
  x_copies.wait();

  const int column = thread / kDecodeTileOutputs;
  const int row = row_at(args, first_row + column);
  const bool has_row = column < kRoundedTile && first_row + column < args.rows;
  int stage = 0;
#pragma unroll 1
  for (; tile < end; ++tile) {
    const LinearDecodeJob& job = job_of(args, tile);
    const int o = (tile - job.first_block) * kDecodeTileOutputs + thread % kDecodeTileOutputs;
    const bool stores = has_row && o < job.n_out;
    float* const y = job.y + row * job.y_stride + o;
    // The value to accumulate to is loaded early.
    const float old = stores && job.accumulate != 0 ? *y : 0;
    copies.wait(stage);
    __syncthreads();
    uint8_t* const own = weights + stage * args.stage_bytes;
    TileSums<1> sums = {};
    with_integer_type(static_cast<DType>(job.type), [&]<DType kType>() CHIMERE_INLINED {
      multiply_tile<kType, 1, kWarps>(own, static_cast<int>(tile_row_stride(job.row_bytes)), x,
                                      codebook, sums);
    });
    auto* const shown = reinterpret_cast<float*>(own);
    share_sums<1, kWarps>(sums, shown);
    if (stores) {
      const float v = sum_of<1>(shown, column, thread % kDecodeTileOutputs) * job.scale;
      *y = job.accumulate != 0 ? old + v : v;
    }
    if (tile + 1 == end) return;
    before_bulk_copies();
    __syncthreads();
    copy_next(stage);
    stage = stage + 1 == args.stages ? 0 : stage + 1;
  }
}

/// Computes 16 outputs by kRowTiles tiles of 8 rows.
template <int kRowTiles>
__device__ __forceinline__ void linear_tile(const LinearDecodeArgs& args, uint8_t* shared) {
  constexpr int kColumns = kRowTiles * kRoundedTile;
  constexpr int kOwn =
      (kDecodeTileOutputs * kColumns + kLinearDecodeThreads - 1) / kLinearDecodeThreads;
  const LinearDecodeJob& job = job_of_block(args);
  const auto type = static_cast<DType>(job.type);
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int first = (static_cast<int>(blockIdx.x) - job.first_block) * kDecodeTileOutputs;
  const int first_row = static_cast<int>(blockIdx.y) * kColumns;
  uint8_t* const weights = shared + args.weights_at;
  const auto stride = static_cast<int>(tile_row_stride(job.row_bytes));
  __shared__ uint64_t arrived[kLinearDecodeThreads / kWarp];
  WarpCopies copies(&arrived[thread / kWarp]);
  for (int i = thread / kWarp; i < kDecodeTileOutputs; i += kLinearDecodeThreads / kWarp) {
    const int o = min(first + i, job.n_out - 1);
    copies.begin(weights + i * stride, job.w + o * job.row_bytes, static_cast<int>(job.row_bytes));
  }
  auto* const codebook = reinterpret_cast<uint32_t*>(shared);
  copy_codebook(codebook_place(type), args.codebook, codebook);
  wait_for_previous_kernel();

  // The values to accumulate to are loaded early.
  float old[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int at = thread + i * kLinearDecodeThreads;
    const int o = first + at % kDecodeTileOutputs;
    const int r = first_row + at / kDecodeTileOutputs;
    old[i] = 0;
    if (job.accumulate != 0 && at < kDecodeTileOutputs * kColumns && o < job.n_out &&
        r < args.rows) {
      old[i] = job.y[row_at(args, r) * job.y_stride + o];
    }
  }
  copies.wait();
  __syncthreads();

  TileSums<kRowTiles> sums = {};
  const TileColumns x = {args.rounded, args.row_ids, args.rows, first_row, args.n_in / 32};
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    multiply_tile<kType>(weights, stride, x, codebook, sums);
  });
  auto* const shown = reinterpret_cast<float*>(weights);
  share_sums(sums, shown);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int at = thread + i * kLinearDecodeThreads;
    const int o = first + at % kDecodeTileOutputs;
    const int r = first_row + at / kDecodeTileOutputs;
    if (at >= kDecodeTileOutputs * kColumns || o >= job.n_out || r >= args.rows) continue;
    float* y = job.y + row_at(args, r) * job.y_stride + o;
    const float v =
        sum_of<kRowTiles>(shown, at / kDecodeTileOutputs, at % kDecodeTileOutputs) * job.scale;
    *y = job.accumulate != 0 ? old[i] + v : v;
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(linear_tile_8, kLinearDecodeThreads, 3, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kTileWarps>(args, shared);
}
/// For few tiles, of which a multiprocessor has one, or two beside blocks of the previous kernel.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_8_wide, kWideTileThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kWideTileWarps>(args, shared);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_16, kLinearDecodeThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_tile<2>(args, shared);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_32, kLinearDecodeThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_tile<4>(args, shared);
}

}  // namespace chimere::kernels::cuda
