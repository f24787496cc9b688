// Arguments of linear_chunk.cu.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_ARGS_H_

#include <cstdint>

#include "kernels/cuda/chunk_tile_args.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kMaxChunkJobs = 8;

struct LinearChunkJob {
  const uint8_t* w;   ///< packed rows
  int64_t row_bytes;  ///< from one to the next
  float* y;           ///< [rows, n_out]
  int64_t y_stride;
  int32_t type;  ///< DType, of rule 4
  int32_t n_out;
  int32_t accumulate;  ///< y += W x
  int32_t first_tile;  ///< of the grid's y
};

/// Grid: x the tiles of rows, so that neighbouring blocks share weights; y the tiles of all jobs'
/// outputs. Dynamic shared memory: chunk_shared_bytes(), then the largest codebook.
struct LinearChunkArgs {
  RoundedRows rounded;
  const int32_t* row_ids;  ///< [rows]; nullptr: all, in order
  const uint32_t* codebook;
  int32_t rows;
  int32_t n_in;
  int32_t n_jobs;
  LinearChunkJob jobs[kMaxChunkJobs];
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_CHUNK_ARGS_H_
