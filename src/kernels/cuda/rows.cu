// Row-wise ops: selection, shifts, the element-wise step of a dense network, routing. A routing
// launch of few blocks is limited by instruction fetches, because the kernels of a layer evict each
// other's code from the caches; its blocks warm the instruction cache before the previous kernel
// has ended.
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
  __shared__ int back;  // the row that writes the slot that the sequence is read from; -1: none
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
  float* after = write >= 0 && write != read ? args.state + write * args.slot_stride : nullptr;
  if (after != nullptr) {
    for (int i = thread; i < args.n; i += kRowThreads) after[i] = x[i];
  }
  const int keep = batch.keep_row == nullptr ? -1 : batch.keep_row[row];
  if (keep >= 0) {
    float* kept = args.kept + keep * args.row_stride;
    for (int i = thread; i < args.n; i += kRowThreads) kept[i] = x[i];
  }
  if (!first) {
    for (int i = thread; i < args.n; i += kRowThreads) y[i] = (x - args.x_stride)[i];
    return;
  }
  // No other block writes what is read here; read it before this block writes.
  __syncthreads();
  for (int r = row + thread; r < args.rows && batch.row_sequence[r] == sequence; r += kRowThreads) {
    if (read >= 0 && batch.write_slot[r] == read) back = r;
  }
  __syncthreads();
  float* state = read < 0 ? nullptr : args.state + read * args.slot_stride;
  const float* before = state;
  if (batch.fold_begin != nullptr && batch.fold_begin[sequence + 1] > batch.fold_begin[sequence]) {
    const int last = batch.fold_rows[batch.fold_begin[sequence + 1] - 1];
    before = args.kept + last * args.row_stride;
  }
  for (int i = thread; i < args.n; i += kRowThreads) {
    const float own = before[i];
    y[i] = own;
    if (back >= 0) {
      state[i] = (args.x + back * args.x_stride)[i];
    } else if (before != state && state != nullptr) {
      state[i] = own;
    }
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

/// A key that is larger for the larger number and equal for both zeros; never 0, which means
/// "taken". NaNs have some fixed order.
__device__ __forceinline__ uint32_t rising(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0F);
  const uint32_t key = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return max(key, 1U);
}

/// The number with this key, except for the sign of zero.
__device__ __forceinline__ float number_of(uint32_t key) {
  return __uint_as_float((key >> 31U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// Routes a row by one warp. Lane l has the experts l, l + 32, ...; kOwn: at least their number. Or
/// warms the instruction cache, without logits and without effect.
template <int kOwn>
__device__ __forceinline__ void route_row(const RouteArgs& args, const float* x, int lane,
                                          int32_t* ids, float* weights, bool warm_icache) {
  uint32_t keys[kOwn];
  float logits[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int expert = lane + j * kWarp;
    logits[j] = expert < args.n_experts && !warm_icache ? x[expert] : 0;
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    keys[j] = lane + j * kWarp < args.n_experts ? rising(logits[j]) : 0;
  }
  float largest = 0;
  float chosen = 0;  // in lane r: the logit of rank r
#pragma unroll 1
  for (int rank = 0; rank < (warm_icache ? 1 : args.n_used); ++rank) {
    uint32_t best[kOwn];  // reduced as a tree: best[0] ends as the lane's largest key
#pragma unroll
    for (int j = 0; j < kOwn; ++j) best[j] = keys[j];
#pragma unroll
    for (int h = kOwn / 2; h > 0; h /= 2) {
#pragma unroll
      for (int j = 0; j < h; ++j) best[j] = max(best[j], best[j + h]);
    }
    const uint32_t top = __reduce_max_sync(kFullWarp, best[0]);
    uint32_t own = kOwn;  // the first of the lane's experts with that key
#pragma unroll
    for (int j = kOwn - 1; j >= 0; --j) own = keys[j] == top ? static_cast<uint32_t>(j) : own;
    bool wins = own < kOwn;
    const auto expert = static_cast<uint32_t>(lane) + own * kWarp;
    if (__popc(__ballot_sync(kFullWarp, wins)) > 1) {
      wins = expert == __reduce_min_sync(kFullWarp, wins ? expert : ~0U);
    }
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      if (wins && static_cast<uint32_t>(j) == own) keys[j] = 0;
    }
    if (wins && !warm_icache) ids[rank] = static_cast<int32_t>(expert);
    if (rank == 0) largest = number_of(top);
    if (rank == lane) chosen = number_of(top);
  }
  const float e = exp_f32(chosen - largest);
  float sum = 0;
#pragma unroll 8
  for (int rank = 0; rank < args.n_used; ++rank) sum = sum + __shfl_sync(kFullWarp, e, rank);
  const float weight = e / sum;
  if (lane < args.n_used && !warm_icache) weights[lane] = weight;
}

}  // namespace

CHIMERE_KERNEL(route, kRouteThreads, RouteArgs, args) {
  let_next_kernel_start();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row =
      (static_cast<int>(blockIdx.x) * kRouteThreads + static_cast<int>(threadIdx.x)) / kWarp;
  const float* x = args.logits + row * args.stride;
  int32_t* ids = args.ids + static_cast<int64_t>(row) * args.n_used;
  float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  bool warm_icache = args.warm_icache != 0;
#pragma unroll 1
  while (true) {
    if (!warm_icache) wait_for_previous_kernel();
    if (row >= args.rows) return;
    if (args.n_experts <= 8 * kWarp) {
      route_row<8>(args, x, lane, ids, weights, warm_icache);
    } else if (args.n_experts <= 16 * kWarp) {
      route_row<16>(args, x, lane, ids, weights, warm_icache);
    } else {
      route_row<kMaxExperts / kWarp>(args, x, lane, ids, weights, warm_icache);
    }
    if (!warm_icache) return;
    warm_icache = false;
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
