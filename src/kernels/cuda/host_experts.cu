// Transfers for experts that the host computes: a row's input and routing to pinned memory, and the
// sum of its experts back. The kernels access pinned memory directly, without separate copies:
// n_embd floats per row in each direction.
#include "kernels/cuda/host_experts_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

__device__ __forceinline__ int row_at(const HostRows& rows, int index) {
  return rows.row_ids == nullptr ? rows.first + index : rows.row_ids[rows.first + index];
}

}  // namespace

CHIMERE_KERNEL(host_rows_out, kHostExpertsThreads, HostRowsOutArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int index = static_cast<int>(blockIdx.x);
  const int row = row_at(args.rows, index);
  const float* x = args.x + row * args.x_stride;
  const int64_t to = static_cast<int64_t>(index) * args.n_embd;
  for (int i = static_cast<int>(threadIdx.x); i < args.n_embd; i += kHostExpertsThreads) {
    const float v = x[i];
    args.x_to_host[to + i] = v;
    if (args.x_copy != nullptr) args.x_copy[to + i] = v;
  }
  for (int i = static_cast<int>(threadIdx.x); i < args.n_used; i += kHostExpertsThreads) {
    const int64_t from = static_cast<int64_t>(row) * args.n_used + i;
    args.ids_to_host[index * args.n_used + i] = args.ids[from];
    args.weights_to_host[index * args.n_used + i] = args.weights[from];
  }
}

/// Rule 7 of docs/numerics.md, from the sum over the ranks on.
CHIMERE_KERNEL(host_rows_in, kHostExpertsThreads, HostRowsInArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int o = static_cast<int>(blockIdx.x) * kHostExpertsThreads + static_cast<int>(threadIdx.x);
  if (o >= args.n_embd) return;
  const auto index = static_cast<int>(blockIdx.y);
  const int row = row_at(args.rows, index);
  const int64_t at = static_cast<int64_t>(index) * args.n_embd + o;
  float t = args.from_host[at];
  if (args.shared != nullptr) {
    const float weight = args.shared_gate != nullptr ? sigmoid(args.shared_gate[row]) : 1.0F;
    t = fmaf(weight, args.shared[at], t);
  }
  float* y = args.y + row * args.y_stride + o;
  *y = *y + t * args.scale;
}

}  // namespace chimere::kernels::cuda
