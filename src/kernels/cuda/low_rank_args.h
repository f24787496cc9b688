// Arguments of the kernels of low_rank.cu.
#ifndef CHIMERE_KERNELS_CUDA_LOW_RANK_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LOW_RANK_ARGS_H_

#include <cstdint>

#include "kernels/cuda/linear_decode_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kLowRankThreads = 256;

/// What one adapter changes in one target.
struct LowRankEntry {
  const float* a;  ///< [rank, n_in]
  const float* b;  ///< [rank, rows of the target]
  int64_t rows;    ///< of the target
  int32_t rank;    ///< 0: nothing
  float scale;
};

/// An adapter of a row; kernels::AdapterUse.
struct AdapterUseArgs {
  int32_t adapter;
  float scale;
};

struct LowRankJob {
  const LowRankEntry* entries;  ///< by adapter
  float* y;                     ///< [rows, n_out]
  int64_t y_stride;
  int32_t n_out;
  int32_t first_row;  ///< of the target
  float scale;
};

/// Rows of adapters' inner products are inner[(job * rows + row) * inner_stride ..], the uses of
/// the row that change the job's target one after the other.
struct LowRankArgs {
  const float* x;  ///< [rows, n_in]
  int64_t x_stride;
  const int32_t* row_ids;      ///< [rows] row of the step; nullptr: the same
  const int32_t* begin;        ///< [rows of the step + 1]
  const AdapterUseArgs* uses;  ///< of row r of the step: begin[r] to begin[r + 1]
  float* inner;
  int64_t inner_stride;
  int32_t rows;
  int32_t n_in;
  LowRankJob jobs[kMaxLinearJobs];
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LOW_RANK_ARGS_H_
