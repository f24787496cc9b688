// Products of several decode rows with quantised weights on tensor cores, with the bits of rule 4
// of docs/numerics.md: the dot product of a scale group is an exact integer product of fragments,
// and each lane keeps the partial sums of its four outputs. A tile has kDecodeTileOutputs packed
// weight rows in shared memory, and kColumns rows of x. Warp w computes partial sums 2 w and 2 w +
// 1, so that warps exchange data only once, in the tree of 16.
//
// Weights are loaded before the previous kernel has ended. linear_tile_8 keeps its rows of x in
// shared memory too, so that a block waits only once for L2. If there are more tiles than resident
// blocks, its blocks stay for the whole launch and share the tiles evenly, as do multiprocessors
// that get blocks in turn: while a block multiplies one, the copy engine brings the weights of the
// next, and x is read once per block. Bytes: each weight once per kColumns rows; otherwise the
// rows' integers once per tile, from L2. With at most one tile for a multiprocessor,
// linear_tile_8_wide has sixteen warps for it.
//
// These kernels are bound by instructions, of which each launch fetches those that it executes.
// linear_tile_8_teams and linear_tile_8_wide_few are small: they have only the types of most models
// (takes_matrices()). linear_tile_8_teams is for launches of at most two tiles a block, each of
// which four warps of the eight multiply. linear_tile_16_few and linear_tile_16_wide_few are
// linear_tile_8 and linear_tile_8_wide_few with those types and two tiles of rows, for which they
// decode weights once. A warp executes, for each 512 weights (a product of 16 x 8 x 32), in its
// loop and (with weight rows of 2,048, or 4,096 for the wide kernel) for everything else:
//
//                             Q5_K   Q4_K   Q6_K   Q8_0   else
//     linear_tile_8_teams       48     43     75     22     32
//     linear_tile_8             55     49     75     26     40
//     linear_tile_8_wide_few    60     53     82     27     53
#include "kernels/cuda/any_codec.h"
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/decode_matrices.h"
#include "kernels/cuda/decode_tile.h"
#include "kernels/cuda/fragment_codec.h"
#include "kernels/cuda/linear_decode_device.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/integer_mma.h"

namespace chimere::kernels::cuda {
namespace {

/// The bits of BlockTotal::total, of those of d and of both sums.
__device__ __forceinline__ uint32_t total_of(uint32_t d, uint32_t sums) {
  const int sum = static_cast<int16_t>(sums & 0xFFFFU) + static_cast<int16_t>(sums >> 16U);
  return __float_as_uint(__uint_as_float(d) * static_cast<float>(sum));
}

/// Copies the block's kRowTiles tiles of rows of x to `q` and `of_blocks`, laid out as
/// StagedColumns, and replaces the blocks' sums if `totals`. The block sees them after its next
/// barrier. The threads copy, since the copy engine may have weights to bring before.
template <int kThreads, int kRowTiles = 1>
__device__ __forceinline__ void stage_columns(const LinearDecodeArgs& args, int first_row,
                                              bool totals, int8_t* q, RoundedBlock* of_blocks) {
  const int blocks = args.n_in / 32;
  const int tile = blocks * kRoundedTile;    // RoundedBlocks of a row tile
  const int pairs = kRowTiles * (tile / 2);  // of RoundedBlocks, a thread's own
  const RoundedRows& x = args.rounded;
  const auto thread = static_cast<int>(threadIdx.x);
  if (args.row_ids == nullptr && x.tile_q != nullptr) {
    const int64_t from = static_cast<int64_t>(first_row) * blocks;
    const auto* const integers = reinterpret_cast<const uint8_t*>(x.tile_q + from * 32);
    const auto* const tile_blocks = reinterpret_cast<const uint8_t*>(x.tile_blocks + from);
#pragma unroll 4
    for (int i = 16 * thread; i < kRowTiles * tile * 32; i += 16 * kThreads) {
      copy_async<16>(reinterpret_cast<uint8_t*>(q) + i, integers + i);
    }
#pragma unroll 1
    for (int i = thread; i < pairs; i += kThreads) {
      copy_async<16>(reinterpret_cast<uint8_t*>(of_blocks + 2 * i), tile_blocks + 16 * i);
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < pairs; i += kThreads) {
#pragma unroll 1
      for (int at = 2 * i; at < 2 * i + 2; ++at) {
        const int n = kRowTiles == 1 ? 0 : at / tile;
        const int index = first_row + n * kRoundedTile + at % kRoundedTile;
        const int64_t from =
            static_cast<int64_t>(row_at(args, index)) * blocks + (at - n * tile) / kRoundedTile;
        auto* const to = reinterpret_cast<uint8_t*>(q + at * 32);
        const auto* const integers = reinterpret_cast<const uint8_t*>(x.q + from * 32);
        copy_async<16>(to, integers);
        copy_async<16>(to + 16, integers + 16);
        copy_async<8>(reinterpret_cast<uint8_t*>(of_blocks + at),
                      reinterpret_cast<const uint8_t*>(x.blocks + from));
      }
    }
  }
  wait_for_copies();
  if (!totals) return;
#pragma unroll 1
  for (int i = thread; i < pairs; i += kThreads) {
    auto* const at = reinterpret_cast<uint4*>(of_blocks + 2 * i);
    const uint4 pair = *at;
    *at = {pair.x, total_of(pair.x, pair.y), pair.z, total_of(pair.z, pair.w)};
  }
}

/// Calls f.operator()<kType>() if `type` is one of takes_matrices(); says whether. Comparisons load
/// nothing, unlike a table of branches.
template <class F>
__device__ __forceinline__ bool with_matrix_type(DType type, F f) {
  if (type == DType::kQ6_K) {
    f.template operator()<DType::kQ6_K>();
  } else if (type == DType::kQ5_K) {
    f.template operator()<DType::kQ5_K>();
  } else if (type == DType::kQ4_K) {
    f.template operator()<DType::kQ4_K>();
  } else if (type == DType::kQ8_0) {
    f.template operator()<DType::kQ8_0>();
  } else {
    return false;
  }
  return true;
}

/// The sums of the tile at `weights`. `matrices`: LinearDecodeArgs::matrices. Without kAny, it is
/// set and all jobs are of takes_matrices() types.
template <int kWarps, bool kAny, int kRowTiles>
__device__ __forceinline__ void multiply_staged(const LinearDecodeJob& job, const uint8_t* weights,
                                                const StagedColumns& x, bool matrices,
                                                const uint32_t* codebook,
                                                TileSums<kRowTiles>& sums) {
  const auto type = static_cast<DType>(job.type);
  if (!kAny || matrices) {
    const bool done = with_matrix_type(type, [&]<DType kType>() CHIMERE_INLINED {
      multiply_by_matrices<kType, kWarps>(weights, job.tile_stride, x, sums);
    });
    if (!kAny || done) return;
  }
  if constexpr (kAny) {
    with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
      multiply_tile<kType, 1, kWarps>(weights, job.tile_stride, x, codebook, sums);
    });
  }
}

/// Computes this block's tiles of 16 outputs by kRowTiles tiles of 8 rows, with x in shared memory.
/// kAny: as for multiply_staged(); only with one row tile.
template <int kWarps, bool kAny = true, int kRowTiles = 1>
__device__ __forceinline__ void staged_tiles(const LinearDecodeArgs& args, uint8_t* shared) {
  constexpr int kStoring = kDecodeTileOutputs * kRoundedTile / kWarp;  // warps, for each row tile
  constexpr int kRows = kDecodeTileOutputs / kWarps;
  static_assert(kStoring == 4 && kRowTiles * kStoring <= kWarps);
  static_assert(!kAny || kRowTiles == 1);
  __shared__ uint64_t arrived[kWarps * kLinearTileStages];
  let_next_kernel_start();
  const auto warp = static_cast<int>(threadIdx.x / kWarp);
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int first_row = static_cast<int>(blockIdx.y) * kRowTiles * kRoundedTile;
  uint8_t* const weights = shared + args.weights_at;
  RingCopies copies(arrived + warp * kLinearTileStages, kLinearTileStages);
  const auto index = static_cast<int>(blockIdx.x);
  int tile = index * args.block_tiles + min(index, args.more_tiles);
  const int end = tile + args.block_tiles + (index < args.more_tiles ? 1 : 0);
  int ahead = tile;  // the tile whose copies start next
  const auto copy_next = [&](int stage) CHIMERE_INLINED {
    const LinearDecodeJob& job = job_of(args, ahead);
    const int first = (ahead - job.first_block) * kDecodeTileOutputs + kRows * warp;
    copies.begin_rows<kRows, !kAny>(
        stage, weights + stage * args.stage_bytes + kRows * warp * job.tile_stride, job.tile_stride,
        job.w, static_cast<int>(job.row_bytes), first, job.n_out - 1);
    ++ahead;
  };
#pragma unroll 1
  for (int i = 0; i < args.stages && ahead < end; ++i) copy_next(i);
  auto* const codebook = reinterpret_cast<uint32_t*>(shared);
  if (kAny && args.weights_at != 0) {
    // All tiles of a block have the same codebook.
    copy_codebook(codebook_place(static_cast<DType>(job_of(args, tile).type)), args.codebook,
                  codebook);
  }
  wait_for_previous_kernel();
  auto* const q = reinterpret_cast<int8_t*>(shared + args.x_at);
  auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kRowTiles * kRoundedTile * args.n_in);
  const StagedColumns x = {q, of_blocks, args.n_in / 32};
  stage_columns<kWarps * kWarp, kRowTiles>(args, first_row, args.totals != 0, q, of_blocks);

  // Warp 4 n + i of the first ones stores the elements i of the fragments of row tile n.
  const int element = warp % kStoring;
  const int column = warp / kStoring * kRoundedTile + lane % 4 * 2 + element % 2;
  const int output = lane / 4 + element / 2 * 8;
  int row = -1;
  if (warp < kRowTiles * kStoring && first_row + column < args.rows) {
    row = row_at(args, first_row + column);
  }
  int stage = 0;
#pragma unroll 1
  for (;;) {
    const LinearDecodeJob& job = job_of(args, tile);
    float* y = nullptr;
    float old = 0;
    if (row >= 0) {
      const int o = (tile - job.first_block) * kDecodeTileOutputs + output;
      if (o < job.n_out) {
        y = job.y + row * job.y_stride + o;
        // The value to accumulate to is loaded early.
        if (job.accumulate != 0) old = *y;
      }
    }
    copies.wait(stage);
    __syncthreads();
    uint8_t* const tile_weights = weights + stage * args.stage_bytes;
    TileSums<kRowTiles> sums = {};
    multiply_staged<kWarps, kAny>(job, tile_weights, x, args.matrices != 0, codebook, sums);
    auto* const shown = reinterpret_cast<float*>(tile_weights);
    share_partials<kWarps>(sums, shown);
    if (y != nullptr) {
      const float* const of_tile = shown + warp / kStoring * kSharedPartials;
      const float v = sum_of_element<kWarps>(of_tile, element, lane) * job.scale;
      *y = job.accumulate != 0 ? old + v : v;
    }
    if (++tile == end) return;
    if (ahead < end) {
      before_bulk_copies();
      __syncthreads();
      copy_next(stage);
    }
    stage = stage + 1 == args.stages ? 0 : stage + 1;
  }
}

/// Computes this block's tiles, all of takes_matrices() types, with LinearDecodeArgs::matrices: a
/// team of four warps for each of two tiles at a time. Each team begins once its own tile has come.
__device__ __forceinline__ void team_tiles(const LinearDecodeArgs& args, uint8_t* shared) {
  constexpr int kTeams = kLinearDecodeThreads / kWarp / kTeamWarps;
  constexpr int kRows = kDecodeTileOutputs / kTeamWarps;  // that a warp copies
  static_assert(kTeams == kLinearTileStages && kRoundedTile * kDecodeTileOutputs == 4 * kWarp);
  __shared__ uint64_t arrived[kTeams * kTeamWarps];
  let_next_kernel_start();
  const auto warp = static_cast<int>(threadIdx.x / kWarp % kTeamWarps);
  const auto team = static_cast<int>(threadIdx.x / (kWarp * kTeamWarps));
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int first_row = static_cast<int>(blockIdx.y) * kRoundedTile;
  uint8_t* const weights = shared + args.weights_at + team * args.stage_bytes;
  const auto index = static_cast<int>(blockIdx.x);
  int tile = index * args.block_tiles + min(index, args.more_tiles);
  const int end = tile + args.block_tiles + (index < args.more_tiles ? 1 : 0);
  tile += team;
  TeamCopies<kTeamWarps> copies(arrived + team * kTeamWarps, warp);
  auto* const q = reinterpret_cast<int8_t*>(shared + args.x_at);
  auto* const of_blocks = reinterpret_cast<RoundedBlock*>(q + kRoundedTile * args.n_in);
  const StagedColumns x = {q, of_blocks, args.n_in / 32};
  const int column = lane % 4 * 2 + warp % 2;
  const int output = lane / 4 + warp / 2 * 8;
  bool begins = true;
#pragma unroll 1
  for (;;) {
    const bool has_tile = tile < end;
    const LinearDecodeJob& job = job_of(args, tile);
    const int first = (tile - job.first_block) * kDecodeTileOutputs;
    if (has_tile) {
      copies.begin_rows<kRows>(weights + kRows * warp * job.tile_stride, job.tile_stride, job.w,
                               static_cast<int>(job.row_bytes), first + kRows * warp,
                               job.n_out - 1);
    }
    if (begins) {
      begins = false;
      wait_for_previous_kernel();
      stage_columns<kLinearDecodeThreads>(args, first_row, args.totals != 0, q, of_blocks);
      __syncthreads();
    }
    float* y = nullptr;
    float old = 0;
    if (has_tile && first + output < job.n_out && first_row + column < args.rows) {
      y = job.y + row_at(args, first_row + column) * job.y_stride + first + output;
      // The value to accumulate to is loaded early.
      if (job.accumulate != 0) old = *y;
    }
    copies.wait(has_tile);
    TeamSums sums = {};
    if (has_tile) {
      with_matrix_type(static_cast<DType>(job.type), [&]<DType kType>() CHIMERE_INLINED {
        multiply_by_team<kType>(weights, job.tile_stride, x, warp, sums);
      });
    }
    auto* const shown = reinterpret_cast<float*>(weights);
    __syncthreads();
    put_team_sums(sums, warp, shown);
    __syncthreads();
    if (y != nullptr) {
      const float v = team_sum_of_element(shown, warp) * job.scale;
      *y = job.accumulate != 0 ? old + v : v;
    }
    tile += kTeams;
    if (tile - team >= end) return;
    before_bulk_copies();
    __syncthreads();
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
/// For one or two tiles a block, of the types of most models.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_8_teams, kLinearDecodeThreads, 3, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  team_tiles(args, shared);
}
/// For few tiles, of which a multiprocessor has one, or two beside blocks of the previous kernel.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_8_wide, kWideTileThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kWideTileWarps>(args, shared);
}
/// The same for the types of most models: their code is small, and in few registers.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_8_wide_few, kWideTileThreads, 2, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kWideTileWarps, false>(args, shared);
}
/// For nine to sixteen rows and the types of most models.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_16_few, kLinearDecodeThreads, kLinearTile16Blocks,
                         LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kTileWarps, false, 2>(args, shared);
}
/// The same for at most one tile for a multiprocessor.
CHIMERE_KERNEL_OF_BLOCKS(linear_tile_16_wide_few, kWideTileThreads, 1, LinearDecodeArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  staged_tiles<kWideTileWarps, false, 2>(args, shared);
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
