// Arguments of linear_decode.cu.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_DECODE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_DECODE_ARGS_H_

#include <cstdint>

#include "kernels/cuda/rounding_args.h"
#include "kernels/math.h"
#include "tensor/dtype.h"

namespace chimere::kernels::cuda {

inline constexpr int kLinearDecodeThreads = 256;
/// Half warps per block, each computing one output at a time (linear_decode_by_warps: each warp).
inline constexpr int kLinearDecodeOutputs = kLinearDecodeThreads / 16;
inline constexpr int kMaxLinearJobs = 8;

/// linear_float: outputs and rows per block, and elements loaded at a time.
inline constexpr int kFloatOutputs = 2;
inline constexpr int kFloatRows = 8;
inline constexpr int kFloatStage = 2048;
inline constexpr int kLongFloatStage = 4096;
/// linear_float_long: one or two rows that fill a stage of kFloatStage.
CHIMERE_INLINE constexpr bool takes_long_stage(int rows, int n_in) {
  return rows <= 2 && n_in > kFloatStage;
}
/// linear_float warms the instruction cache with at most this many blocks, over this many elements.
inline constexpr int kFewFloatBlocks = 264;
inline constexpr int kFloatWarmupElements = 256;
/// Bytes between rows in shared memory: padded so that the two halves of a warp read two weight
/// rows from different banks.
CHIMERE_INLINE constexpr int float_stage_bytes(int stage) { return stage * 4 + 64; }

/// Dynamic shared memory of linear_float for `rows` rows per block.
CHIMERE_INLINE constexpr int float_shared_bytes(int rows, int stage) {
  return (kFloatOutputs + rows) * float_stage_bytes(stage);
}

/// linear_float_rows: outputs per block, and elements loaded at a time; kFloatRows rows per block.
inline constexpr int kFloatRowsOutputs = 8;
inline constexpr int kFloatRowsStage = 512;
inline constexpr int kFloatRowsStageBytes = kFloatRowsStage * 4 + 64;
/// Its dynamic shared memory: two pipeline stages.
inline constexpr int kFloatRowsSharedBytes =
    2 * (kFloatRowsOutputs + kFloatRows) * kFloatRowsStageBytes;

/// linear_tile_N: weight rows of a tensor-core operand.
inline constexpr int kDecodeTileOutputs = 16;
/// linear_tile_N_wide: a warp for each of the 16 partial sums.
inline constexpr int kWideTileThreads = 16 * 32;
/// Blocks per multiprocessor of linear_tile_8 and of linear_tile_16_few.
inline constexpr int kLinearTileBlocks = 3;
inline constexpr int kLinearTile16Blocks = 2;
/// Most tiles whose weights a block of them has in shared memory.
inline constexpr int kLinearTileStages = 2;

/// Floats between the partial sums of neighbouring columns in shared memory: a warp writes to
/// different banks.
inline constexpr int kTileStride = 20;

/// Bytes between weight rows in shared memory: the eight rows of a fragment lie in different banks.
CHIMERE_INLINE constexpr int64_t tile_row_stride(int64_t row_bytes) {
  return (row_bytes + 111) / 128 * 128 + 16;
}

/// Types that linear_tile_8 and its relatives multiply with decode_matrices.h's
/// multiply_by_matrices(), if a weight row is a multiple of matrix_blocks() blocks of 32.
CHIMERE_INLINE constexpr bool takes_matrices(DType t) {
  return t == DType::kQ4_K || t == DType::kQ5_K || t == DType::kQ6_K || t == DType::kQ8_0;
}
CHIMERE_INLINE constexpr int matrix_blocks(bool wide) { return wide ? 32 : 16; }

struct LinearDecodeJob {
  const uint8_t* w;   ///< packed rows (packed_layout.h)
  int64_t row_bytes;  ///< between rows
  float* y;           ///< [rows, n_out]
  int64_t y_stride;
  int32_t type;  ///< DType
  int32_t n_out;
  int32_t accumulate;   ///< y += scale (W x)
  float scale;          ///< of the product
  int32_t first_block;  ///< first block of this job in the grid's x; linear_tile_8: first tile
  int32_t tile_stride;  ///< linear_tile_8: tile_row_stride(row_bytes)
};

/// Grid: x the blocks of all jobs, y the tiles of rows. Dynamic shared memory: the largest codebook
/// of the jobs' types, and for linear_tile_N the block's weight rows behind it (linear_float:
/// float_shared_bytes(); linear_float_rows: kFloatRowsSharedBytes).
struct LinearDecodeArgs {
  const float* x;  ///< [rows, n_in], for float weights
  int64_t x_stride;
  RoundedRows rounded;       ///< of x, for quantised weights
  const int32_t* row_ids;    ///< [rows]: rows of x, rounded and y; nullptr: all, in order
  const uint32_t* codebook;  ///< codebook_words()
  int32_t rows;
  int32_t n_in;
  int32_t n_jobs;
  int32_t passes;      ///< a block computes kLinearDecodeOutputs * passes outputs of a job
  int32_t weights_at;  ///< linear_tile_N: offset of the weights in dynamic shared memory
  // linear_tile_8 and its relatives. With more than one stage a block takes several tiles, of jobs
  // with one codebook.
  int32_t x_at;  ///< offset of the tile of x
  // Of the tiles of kDecodeTileOutputs outputs, every block takes block_tiles consecutive ones, and
  // the first more_tiles blocks one more.
  int32_t block_tiles;
  int32_t more_tiles;
  int32_t stages;  ///< tiles whose weights are in shared memory
  int32_t stage_bytes;
  int32_t matrices;  ///< tiles of takes_matrices() types are multiplied by multiply_by_matrices()
  int32_t totals;    ///< for them, the blocks' sums are replaced by BlockTotals
  int32_t warm_icache;  ///< linear_float: run part of the work before x is ready, to warm the cache
  LinearDecodeJob jobs[kMaxLinearJobs];
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_DECODE_ARGS_H_
