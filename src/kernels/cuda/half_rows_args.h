// Activations of prefill rows as f16 (docs/numerics.md, rule 9), and the arguments of half_rows.cu.
#ifndef CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// Weights are multiplied by this before they are rounded to f16: those of files are mostly far
/// below 1, and so fewer are subnormal.
inline constexpr float kHalfWeightUnit = 64;

/// Rows of n activations, each multiplied by a power of two of its own. n is a multiple of 32.
struct HalfRows {
  uint16_t* x = nullptr;  ///< [rows, n], aligned to 16 bytes
  /// [rows] What a sum of products with weights times kHalfWeightUnit is multiplied by.
  float* unit = nullptr;
};

inline constexpr int kHalfRowsThreads = 256;

/// A warp for each row.
struct HalfRowsArgs {
  const float* x;  ///< [.., n]
  int64_t x_stride;
  HalfRows to;
  const int32_t* row_ids;  ///< [rows]; nullptr: all, in order
  int32_t rows;
  int32_t pitch;  ///< elements from one row of `to` to the next
  int32_t n;
  /// Rows from this index on have other_n elements.
  int32_t other_from;
  int32_t other_n;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HALF_ROWS_ARGS_H_
