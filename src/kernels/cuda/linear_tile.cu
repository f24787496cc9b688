// Products of several decode rows with quantised weights on tensor cores, with the bits of rule 4
// of docs/numerics.md: the dot product of a scale group is an exact integer product of fragments,
// and each lane keeps the partial sums of its four outputs. A block has kDecodeTileOutputs packed
// weight rows in shared memory, and kColumns rows of x. Warp w computes partial sums 2 w and 2 w +
// 1, so that warps exchange data only once, in the tree of 16.
//
// Weights are loaded before the previous kernel has ended. linear_tile_8 keeps its rows of x in
// shared memory too, so that a block waits only once for L2. Bytes: each weight once per kColumns
// rows; the rows' integers once per kDecodeTileOutputs outputs, from L2.
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
template <int kRowTiles>
__device__ __forceinline__ void stage_columns(const LinearDecodeArgs& args, int first_row,
                                              WarpCopies& copies, int8_t* q,
                                              RoundedBlock* of_blocks) {
  const int blocks = args.n_in / 32;
  const RoundedRows& x = args.rounded;
  const int thread = static_cast<int>(threadIdx.x);
  if (args.row_ids == nullptr && x.tile_q != nullptr) {
    // A warp's share: as many bytes as one row of each tile has.
    const int share = kRowTiles * blocks * kRoundedTile * kWarp / kLinearDecodeThreads;
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
  for (int i = thread; i < kRowTiles * blocks * kRoundedTile; i += kLinearDecodeThreads) {
    const int column = i / kRoundedTile / blocks * kRoundedTile + i % kRoundedTile;
    const int64_t from =
        static_cast<int64_t>(row_at(args, first_row + column)) * blocks + i / kRoundedTile % blocks;
    auto* const to = reinterpret_cast<uint8_t*>(q + i * 32);
    const auto* const integers = reinterpret_cast<const uint8_t*>(x.q + from * 32);
    copy_async<16>(to, integers);
    copy_async<16>(to + 16, integers + 16);
    copy_async<8>(reinterpret_cast<uint8_t*>(of_blocks + i),
                  reinterpret_cast<const uint8_t*>(x.blocks + from));
  }
}

/// Computes 16 outputs by kRowTiles tiles of 8 rows.
template <int kRowTiles, bool kStaged>
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

  auto* const staged = reinterpret_cast<int8_t*>(shared + args.x_at);
  auto* const staged_blocks = reinterpret_cast<RoundedBlock*>(staged + kColumns * args.n_in);
  if constexpr (kStaged) stage_columns<kRowTiles>(args, first_row, copies, staged, staged_blocks);

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
  const auto multiply = [&](const auto& x) CHIMERE_INLINED {
    with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
      multiply_tile<kType>(weights, stride, x, codebook, sums);
    });
  };
  if constexpr (kStaged) {
    multiply(StagedColumns{staged, staged_blocks, args.n_in / 32});
  } else {
    multiply(TileColumns{args.rounded, args.row_ids, args.rows, first_row, args.n_in / 32});
  }
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
  linear_tile<1, true>(args, shared);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_16, kLinearDecodeThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_tile<2, false>(args, shared);
}
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_32, kLinearDecodeThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  linear_tile<4, false>(args, shared);
}

}  // namespace chimere::kernels::cuda
