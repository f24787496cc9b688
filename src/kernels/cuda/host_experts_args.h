// Arguments of host_experts.cu.
#ifndef CHIMERE_KERNELS_CUDA_HOST_EXPERTS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_HOST_EXPERTS_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kHostExpertsThreads = 256;

/// Rows whose routed experts the host computes: rows row_ids[first .. first + count), or first ..
/// first + count without ids. In the arguments below, `*_to_host` and `from_host` are pinned
/// memory.
struct HostRows {
  const int32_t* row_ids;
  int32_t first;
  int32_t count;
};

/// Grid: one block per row.
struct HostRowsOutArgs {
  HostRows rows;
  const float* x;  ///< [rows, n_embd]
  int64_t x_stride;
  const int32_t* ids;    ///< [rows, n_used]
  const float* weights;  ///< [rows, n_used]
  float* x_to_host;      ///< [count, n_embd]
  int32_t* ids_to_host;  ///< [count, n_used]
  float* weights_to_host;
  float* x_copy;  ///< [count, n_embd] in device memory, or nullptr
  int32_t n_embd;
  int32_t n_used;
};

/// Grid: x blocks of elements, y rows.
struct HostRowsInArgs {
  HostRows rows;
  const float* from_host;    ///< [count, n_embd]: sums over the routed experts
  const float* shared;       ///< [count, n_embd]: the shared expert's output, or nullptr
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  int32_t n_embd;
  float scale;  ///< MoeOptions::scale
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HOST_EXPERTS_ARGS_H_
