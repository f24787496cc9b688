// Arguments of the kernels of norm.cu.
#ifndef CHIMERE_KERNELS_CUDA_NORM_ARGS_H_
#define CHIMERE_KERNELS_CUDA_NORM_ARGS_H_

#include <cstdint>

#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kNormThreads = 512;
/// Rows up to which the blocks of rms_norm warm the instruction cache: less than GPUs have
/// multiprocessors.
inline constexpr int kFewNormRows = 64;
inline constexpr int kGatedNormThreads = 128;

/// A block for each row.
struct RmsNormArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  const float* weight;  ///< [n]
  float* y;             ///< [rows, n]; may be x
  int64_t y_stride;
  RoundedRows rounded;  ///< y rounded too, if there is such memory; n is a multiple of 32 then
  int32_t n;
  float eps;
  int32_t warm_icache;  ///< blocks go through their work once before they have their rows
};

/// A warp for each head of each row.
struct GatedRmsNormArgs {
  const float* x;  ///< [rows, heads * head_dim]
  int64_t x_stride;
  const float* z;  ///< as x: the gate
  int64_t z_stride;
  const float* weight;  ///< [head_dim]
  float* y;             ///< as x; may be x
  int64_t y_stride;
  RoundedRows rounded;  ///< y rounded too, if there is such memory; head_dim % 32 == 0 then
  int32_t rows;
  int32_t heads;
  int32_t head_dim;  ///< a multiple of 16
  float eps;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_NORM_ARGS_H_
