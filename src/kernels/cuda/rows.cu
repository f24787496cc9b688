// What works on rows by themselves: selection, shifts, the inner step of a dense network, routing.
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

CHIMERE_KERNEL(shift_rows, kRowThreads, ShiftRowsArgs, args) {
  __shared__ int back;  // the row that writes the slot which the sequence is read from; -1: none
  const int thread = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.x);
  if (thread == 0) back = -1;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const BatchArgs& batch = args.batch;
  if (batch.row_position[row] < 0) return;
  const int sequence = batch.row_sequence[row];
  const int read = batch.read_slot[sequence];
  const int write = batch.write_slot[row];
  const bool first = row == 0 || batch.row_sequence[row - 1] != sequence;
  const float* x = args.x + row * args.x_stride;
  float* y = args.y + row * args.y_stride;
  float* kept = write >= 0 && write != read ? args.state + write * args.slot_stride : nullptr;
  if (kept != nullptr) {
    for (int i = thread; i < args.n; i += kRowThreads) kept[i] = x[i];
  }
  if (!first) {
    for (int i = thread; i < args.n; i += kRowThreads) y[i] = (x - args.x_stride)[i];
    return;
  }
  // What is read is written by nobody else, so that it is read first.
  __syncthreads();
  for (int r = row + thread; r < args.rows && batch.row_sequence[r] == sequence;
       r += kRowThreads) {
    if (batch.write_slot[r] == read) back = r;
  }
  __syncthreads();
  float* state = args.state + read * args.slot_stride;
  for (int i = thread; i < args.n; i += kRowThreads) {
    y[i] = state[i];
    if (back >= 0) state[i] = (args.x + back * args.x_stride)[i];
  }
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

/// Larger for the larger of two numbers, the same for the two zeros; never 0, which stands for
/// "taken". NaNs have some place.
__device__ __forceinline__ uint32_t rising(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0F);
  const uint32_t key = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return max(key, 1U);
}

/// Routes a row by a warp; kOwn: at least the experts of a lane, which are lane, lane + 32, ...
template <int kOwn>
__device__ __forceinline__ void route_row(const RouteArgs& args, const float* x, int lane,
                                          int32_t* ids, float* weights) {
  float logits[kOwn];
  uint32_t keys[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int expert = lane + j * kWarp;
    logits[j] = expert < args.n_experts ? x[expert] : 0;
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    keys[j] = lane + j * kWarp < args.n_experts ? rising(logits[j]) : 0;
  }
  float chosen = 0;  // lane r: the logit of rank r
  for (int rank = 0; rank < args.n_used; ++rank) {
    uint32_t best = keys[0];
    float logit = logits[0];
    int own = 0;
#pragma unroll
    for (int j = 1; j < kOwn; ++j) {
      if (keys[j] > best) {
        best = keys[j];
        logit = logits[j];
        own = j;
      }
    }
    const uint32_t top = __reduce_max_sync(kFullWarp, best);
    const uint32_t candidate = best == top ? static_cast<uint32_t>(lane + own * kWarp) : ~0U;
    const uint32_t expert = __reduce_min_sync(kFullWarp, candidate);
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (candidate == expert && j == own) keys[j] = 0;
    }
    const float value = __shfl_sync(kFullWarp, logit, static_cast<int>(expert % kWarp));
    if (rank == lane) chosen = value;
    if (lane == 0) ids[rank] = static_cast<int32_t>(expert);
  }
  const float e = exp_f32(chosen - __shfl_sync(kFullWarp, chosen, 0));
  float sum = 0;
  for (int rank = 0; rank < args.n_used; ++rank) sum = sum + __shfl_sync(kFullWarp, e, rank);
  if (lane < args.n_used) weights[lane] = e / sum;
}

}  // namespace

CHIMERE_KERNEL(route, kRouteThreads, RouteArgs, args) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row =
      (static_cast<int>(blockIdx.x) * kRouteThreads + static_cast<int>(threadIdx.x)) / kWarp;
  if (row >= args.rows) return;
  const float* x = args.logits + row * args.stride;
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  if (args.n_experts <= 8 * kWarp) {
    route_row<8>(args, x, lane, ids, weights);
  } else {
    route_row<kMaxExperts / kWarp>(args, x, lane, ids, weights);
  }
}

CHIMERE_KERNEL(keep_top_p, kRowThreads, KeepTopPArgs, args) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.rows) return;
  const int row = args.row_ids == nullptr ? i : args.row_ids[i];
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  float sum = weights[0];
  int kept = 1;
  for (; kept < args.n_used && sum < args.top_p; ++kept) sum = sum + weights[kept];
  for (int rank = 0; rank < args.n_used; ++rank) {
    weights[rank] = rank < kept ? weights[rank] / sum : 0.0F;
    if (rank >= kept) ids[rank] = -1;
  }
  auto* const use = reinterpret_cast<unsigned long long*>(args.use);
  atomicAdd(use, 1ULL);
  atomicAdd(use + 1, static_cast<unsigned long long>(kept));
}

}  // namespace chimere::kernels::cuda
