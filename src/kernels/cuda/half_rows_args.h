// Activations of prefill rows as f16 (docs/numerics.md, rule 9), and the arguments of half_rows.cu.
#ifndef CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// Weights are multiplied by this before they are rounded to f16: most are far below 1, so fewer
/// become subnormal.
inline constexpr float kHalfWeightUnit = 64;

/// Rows of n activations, each row scaled by its own power of two. n is a multiple of 32.
struct HalfRows {
  uint16_t* x = nullptr;  ///< [rows, n], aligned to 16 bytes
  /// [rows]: factor for a row's sums of products with weights scaled by kHalfWeightUnit
  float* unit = nullptr;
};

inline constexpr int kHalfRowsThreads = 256;

/// One warp per row.
struct HalfRowsArgs {
  const float* x;  ///< [.., n]
  int64_t x_stride;
  HalfRows to;
  const int32_t* row_ids;  ///< [rows]; nullptr: all, in order
  int32_t rows;
  int32_t pitch;  ///< elements from one row of `to` to the next
  int32_t n;
  /// Rows from here on have other_n elements.
  int32_t other_from;
  int32_t other_n;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_
