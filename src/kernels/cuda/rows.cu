// What works on rows by themselves: selection, the inner step of a dense network, routing.
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rows_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(select_rows, kRowThreads, SelectRowsArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const float* x = args.x + args.ids[blockIdx.x] * args.x_stride;
  float* y = args.y + blockIdx.x * args.y_stride;
  for (int i = static_cast<int>(threadIdx.x); i < args.n; i += kRowThreads) y[i] = x[i];
}

CHIMERE_KERNEL(silu_multiply, kRowThreads, SiluMultiplyArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  float* gate = args.gate + blockIdx.y * args.gate_stride + i;
  *gate = silu(*gate) * args.up[blockIdx.y * args.up_stride + i];
}

namespace {

/// The largest logit so far and whose it is; expert -1: none yet.
struct Best {
  float logit;
  int32_t expert;
};

__device__ __forceinline__ bool beats(const Best& a, const Best& b) {
  if (a.expert < 0 || b.expert < 0) return a.expert >= 0;
  return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

}  // namespace

CHIMERE_KERNEL(route, kRowThreads, RouteArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row =
      (static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x)) / kWarp;
  if (row >= args.rows) return;
  const float* x = args.logits + row * args.stride;
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;

  uint32_t taken = 0;  // bit j: expert lane + 32 j
  float first = 0;     // the largest logit
  float mine = 0;      // lane r: the weight of rank r, of the first 32 ranks
  float sum = 0;
  for (int rank = 0; rank < args.n_used; ++rank) {
    Best best = {0, -1};
    for (int j = 0; lane + j * kWarp < args.n_experts; ++j) {
      const Best other = {x[lane + j * kWarp], lane + j * kWarp};
      if (((taken >> j) & 1U) == 0 && beats(other, best)) best = other;
    }
    for (int h = kWarp / 2; h > 0; h /= 2) {
      const Best other = {__shfl_xor_sync(kFullWarp, best.logit, h),
                          __shfl_xor_sync(kFullWarp, best.expert, h)};
      if (beats(other, best)) best = other;
    }
    // Where NaNs make lanes disagree, the first one decides.
    best = {__shfl_sync(kFullWarp, best.logit, 0), __shfl_sync(kFullWarp, best.expert, 0)};
    if (best.expert % kWarp == lane) taken |= 1U << (best.expert / kWarp);
    if (rank == 0) first = best.logit;
    const float e = exp_f32(best.logit - first);
    sum = sum + e;
    if (rank == lane) mine = e;
    if (lane == 0) ids[rank] = best.expert;
  }
  if (lane < args.n_used) weights[lane] = mine / sum;
}

}  // namespace chimere::kernels::cuda
