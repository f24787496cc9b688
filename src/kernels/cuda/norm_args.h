// Arguments of the kernels of norm.cu.
#ifndef CHIMERE_KERNELS_CUDA_NORM_ARGS_H_
#define CHIMERE_KERNELS_CUDA_NORM_ARGS_H_

#include <cstdint>

#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Threads of rms_norm, and of rms_norm_wide. A block loads kNormElements for each at once.
inline constexpr int kNormThreads = 512;
inline constexpr int kWideNormThreads = 1024;
inline constexpr int kNormElements = 4;
/// rms_norm warms the instruction cache for at most this many rows: fewer than a GPU has
/// multiprocessors.
inline constexpr int kFewNormRows = 64;
inline constexpr int kGatedNormThreads = 128;
inline constexpr int kLayerNormThreads = 128;

/// One block per row.
struct RmsNormArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  const float* weight;  ///< [n]
  float* y;             ///< [rows, n]; may be x
  int64_t y_stride;
  RoundedRows rounded;  ///< also y rounded, if it has memory; n is then a multiple of 32
  int32_t n;
  float eps;
  int32_t warm_icache;  ///< run the work once before the rows are ready, to warm the cache
};

/// One block per row. Dynamic shared memory: the row.
struct LayerNormArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  const float* weight;  ///< [n]
  const float* bias;    ///< [n]; nullptr: none
  float* y;             ///< [rows, n]; may be x
  int64_t y_stride;
  int32_t n;
  float eps;
};

/// One warp per row and head.
struct GatedRmsNormArgs {
  const float* x;  ///< [rows, heads * head_dim]
  int64_t x_stride;
  const float* z;  ///< like x: the gate
  int64_t z_stride;
  const float* weight;  ///< [head_dim]
  float* y;             ///< like x; may be x
  int64_t y_stride;
  RoundedRows rounded;  ///< also y rounded, if it has memory; head_dim % 32 == 0 then
  int32_t rows;
  int32_t heads;
  int32_t head_dim;  ///< a multiple of 16
  float eps;
};

/// One warp per row and group.
struct GroupRmsNormArgs {
  const float* x;  ///< [rows, groups * n]
  int64_t x_stride;
  const float* weight;  ///< [groups * n]
  float* y;             ///< like x; may be x
  int64_t y_stride;
  int32_t rows;
  int32_t groups;
  int32_t n;  ///< elements of a group
  float eps;
};

/// Largest group of gated_group_rms_norm.
inline constexpr int kMaxGatedGroup = 512;

/// One warp per row and group.
struct GatedGroupNormArgs {
  const float* x;  ///< [rows, groups * n]
  int64_t x_stride;
  const float* weight;  ///< [groups * n]
  float* z;             ///< like x: the gate, then the result
  int64_t z_stride;
  RoundedRows rounded;  ///< also z rounded, if it has memory
  int32_t rows;
  int32_t groups;
  int32_t n;  ///< elements of a group: a multiple of 32, at most kMaxGatedGroup
  float eps;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_NORM_ARGS_H_
