// Arguments of the kernels of log_sum_exp.cu.
#ifndef CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kExpThreads = 256;

/// LogSumExp of kernels/api.h, in the same bytes.
struct LogSumExpArgs {
  double e;
  double xe;
  float largest;
};

/// The sums of every piece. Grid: x kExpThreads / kExpLanes pieces, y rows.
struct ExpPiecesArgs {
  const float* logits;  ///< [rows, n]
  int64_t stride;
  LogSumExpArgs* pieces;  ///< [rows, n_pieces]
  int32_t n;
  int32_t n_pieces;
};

/// The sums of every row. Grid: rows.
struct ExpRowsArgs {
  const LogSumExpArgs* pieces;  ///< [rows, n_pieces]
  LogSumExpArgs* sums;          ///< [rows]
  int32_t n_pieces;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_
