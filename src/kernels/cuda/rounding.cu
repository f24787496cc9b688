// Rounds rows of activations that were not rounded by the kernel that produced them.
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(round_rows, kRoundThreads, RoundRowsArgs, args) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int in_row = args.n / kWarp;
  const int block = static_cast<int>(blockIdx.x) * (kRoundThreads / kWarp) +
                    static_cast<int>(threadIdx.x) / kWarp;
  if (block >= args.rows * in_row) return;
  const int64_t row = block / in_row;
  const float* x = args.x + row * args.x_stride + static_cast<int64_t>(block % in_row) * kWarp;
  round_block_of_row(x[lane], lane, row, block % in_row, in_row, args.rounded);
}

}  // namespace chimere::kernels::cuda
