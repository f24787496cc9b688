// Arguments of the kernels of rows.cu and route.cu.
#ifndef CHIMERE_KERNELS_CUDA_ROWS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_ROWS_ARGS_H_

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/batch_args.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kRowThreads = 256;
inline constexpr int kRouteThreads = 64;
/// route() warms the instruction cache for at most this many rows: fewer than a GPU has
/// multiprocessors.
inline constexpr int kFewRoutedRows = 64;
/// Most experts of route(): 32 per lane.
inline constexpr int kMaxExperts = 1024;

/// One block per row.
struct SelectRowsArgs {
  const float* x;
  int64_t x_stride;
  const int32_t* ids;  ///< [rows]: rows of x
  float* y;            ///< [rows, n]
  int64_t y_stride;
  int32_t n;
};

/// One block per row.
struct ShiftRowsArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  float* state;  ///< [n] per slot
  int64_t slot_stride;
  float* kept;  ///< [n] per row block
  int64_t row_stride;
  float* y;  ///< [rows, n]
  int64_t y_stride;
  BatchArgs batch;  ///< fold_begin and keep_row are nullptr if no row is folded, or kept
  int32_t rows;
  int32_t n;
};

/// Grid: x parts of a row, y rows.
struct ActivateArgs {
  float* h;  ///< [rows, n]
  int64_t stride;
  const float* up;  ///< [rows, n], or nullptr
  int64_t up_stride;
  RoundedRows rounded;  ///< of the result, if n is a multiple of 32; q nullptr: none
  int32_t n;
  Activation activation;
};

/// Grid: x parts of a row, y rows. The kernels combine each element of y with one of x.
struct CombineArgs {
  float* y;  ///< [rows, n]
  int64_t stride;
  const float* x;    ///< [rows, n]
  int64_t x_stride;  ///< 0: the same [n] for every row
  int32_t n;
};

/// Grid: x parts of a row, y rows.
struct ScaleArgs {
  float* x;  ///< [rows, n]
  int64_t stride;
  int32_t n;
  float factor;
};

/// One warp per row. `route` ignores the fields from `score` to `normalise`.
struct RouteArgs {
  const float* logits;  ///< [rows, n_experts]
  int64_t stride;
  int32_t* ids;    ///< [rows, n_used]
  float* weights;  ///< [rows, n_used]
  int32_t rows;
  int32_t n_experts;    ///< at most kMaxExperts
  int32_t n_used;       ///< at most 32
  int32_t warm_icache;  ///< route: run a row once before its logits are ready, to warm the cache
  float scale;          ///< of the weights
  int32_t score;        ///< RouterScore
  const float* bias;    ///< [n_experts]; nullptr: none
  int32_t n_groups;     ///< at most 32; 0: none
  int32_t n_groups_used;
  int32_t selects_by_logits;  ///< RoutingSpec's conditions
  int32_t weighs_by_logits;
  int32_t normalise;
};

/// One thread per row.
struct KeepTopPArgs {
  int32_t* ids;            ///< [rows, n_used]
  float* weights;          ///< [rows, n_used]
  int64_t* use;            ///< totals of rows and experts: ExpertUse
  const int32_t* row_ids;  ///< [rows]: rows of the routing; nullptr: 0, 1, 2, ...
  int32_t rows;
  int32_t n_used;
  float top_p;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROWS_ARGS_H_
