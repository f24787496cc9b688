// Row-wise ops: selection, shifts, factors, the element-wise step of a dense network, experts'
// top-p.
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/cuda/rows_args.h"

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

CHIMERE_KERNEL(scale, kRowThreads, ScaleArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  float* x = args.x + blockIdx.y * args.stride + i;
  *x = *x * args.factor;
}

CHIMERE_KERNEL(add_rows, kRowThreads, CombineArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  float* y = args.y + blockIdx.y * args.stride + i;
  *y = *y + args.x[blockIdx.y * args.x_stride + i];
}

CHIMERE_KERNEL(copy_rows, kRowThreads, CombineArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i < args.n) args.y[blockIdx.y * args.stride + i] = args.x[blockIdx.y * args.x_stride + i];
}

CHIMERE_KERNEL(multiply_rows, kRowThreads, CombineArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  float* y = args.y + blockIdx.y * args.stride + i;
  *y = *y * args.x[blockIdx.y * args.x_stride + i];
}

CHIMERE_KERNEL(activate, kRowThreads, ActivateArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= args.n) return;
  float* h = args.h + blockIdx.y * args.stride + i;
  const float v = args.up != nullptr ? kernels::activate(args.activation, *h,
                                                         args.up[blockIdx.y * args.up_stride + i])
                                     : kernels::activate(args.activation, *h);
  *h = v;
  if (args.rounded.q == nullptr) return;
  round_block_of_row(v, i % kWarp, blockIdx.y, i / kWarp, args.n / kWarp, args.rounded);
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
