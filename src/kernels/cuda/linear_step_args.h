// Arguments of linear_step.cu.
#ifndef CHIMERE_KERNELS_CUDA_LINEAR_STEP_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LINEAR_STEP_ARGS_H_

#include <cstdint>

#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kLinearStepThreads = 256;
/// Half warps of a block: each gives one output at a time (linear_step_by_warps: each warp).
inline constexpr int kLinearStepOutputs = kLinearStepThreads / 16;
inline constexpr int kMaxLinearJobs = 8;

struct LinearStepJob {
  const uint8_t* w;   ///< packed rows (packed_layout.h)
  int64_t row_bytes;  ///< from one to the next
  float* y;           ///< [rows, n_out]
  int64_t y_stride;
  int32_t type;  ///< DType
  int32_t n_out;
  int32_t accumulate;   ///< y += W x
  int32_t first_block;  ///< of the grid's x
};

/// Grid: x the blocks of all jobs, y the tiles of rows. Dynamic shared memory: the largest codebook
/// of the jobs' types.
struct LinearStepArgs {
  const float* x;  ///< [rows, n_in], for float weights
  int64_t x_stride;
  RoundedRows rounded;       ///< of x, for quantised weights
  const int32_t* row_ids;    ///< [rows] rows of x, rounded and y; nullptr: all, in order
  const uint32_t* codebook;  ///< codebook_words()
  int32_t rows;
  int32_t n_in;
  int32_t n_jobs;
  int32_t passes;  ///< each block gives kLinearStepOutputs * passes outputs of a job
  LinearStepJob jobs[kMaxLinearJobs];
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LINEAR_STEP_ARGS_H_
