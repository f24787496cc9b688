// Arguments of linear_prefill.cu.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_ARGS_H_

#include <cstdint>

#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/prefill_tile_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kMaxPrefillJobs = 8;

struct LinearPrefillJob {
  const uint8_t* w;   ///< rows: packed, or of a float type
  int64_t row_bytes;  ///< between rows
  float* y;           ///< [rows, n_out]
  int64_t y_stride;
  int32_t type;  ///< DType; the types of all jobs are quantised, or all are floats
  int32_t n_out;
  int32_t accumulate;  ///< y += scale (W x)
  float scale;         ///< of the product
  int32_t first_tile;  ///< first tile of this job in the grid's y
};

/// Grid: x tiles of rows, so that neighbouring blocks share weights; y tiles of all jobs' outputs.
/// linear_prefill: dynamic shared memory of kTileSharedBytes, then the largest codebook.
/// linear_prefill_floats: tiles of kFloatTile by kFloatTile; linear_prefill_few_floats: of
/// kFewFloatTile by kFewFloatTile.
struct LinearPrefillArgs {
  HalfRows halves;  ///< linear_prefill only
  const float* x;   ///< linear_prefill_floats only, [rows, n_in]
  int64_t x_stride;
  const int32_t* row_ids;  ///< [rows]; nullptr: all, in order
  const uint32_t* codebook;
  int32_t rows;
  int32_t n_in;
  int32_t n_jobs;
  LinearPrefillJob jobs[kMaxPrefillJobs];
};

inline constexpr int kFloatTile = 64;
/// linear_prefill_few_floats takes at most so many rows, in tiles of this size.
inline constexpr int kFewFloatRows = 1024;
inline constexpr int kFewFloatTile = 32;
inline constexpr int kFloatTileThreads = 256;

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_PREFILL_ARGS_H_
