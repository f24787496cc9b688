// Arguments of the kernels of log_sum_exp.cu.
#ifndef CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_
#define CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kExpThreads = 256;

/// LogSumExp of kernels/api.h, with the same layout.
struct LogSumExpArgs {
  double e;
  double xe;
  float largest;
};

/// Sums of each piece. Grid: x kExpThreads / kExpLanes pieces, y rows.
struct ExpPiecesArgs {
  const float* logits;  ///< [rows, n]
  int64_t stride;
  LogSumExpArgs* pieces;  ///< [rows, n_pieces]
  int32_t n;
  int32_t n_pieces;
};

/// Sums of each row. Grid: rows.
struct ExpRowsArgs {
  const LogSumExpArgs* pieces;  ///< [rows, n_pieces]
  LogSumExpArgs* sums;          ///< [rows]
  int32_t n_pieces;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_ARGS_H_
