// Norms over rows and heads. The order of a sum is rule 2's: 16 chains, whose length is n / 16. A
// chain cannot be cut without changing its bits, so a block's other threads only fetch and write.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/norm_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(rms_norm, kNormThreads, RmsNormArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, row);  // [n], then the scale
  const int n = args.n;
  const int thread = static_cast<int>(threadIdx.x);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const float* x = args.x + blockIdx.x * args.x_stride;
  for (int i = thread; i < n; i += kNormThreads) row[i] = x[i];
  __syncthreads();
  if (thread < kWarp) {
    float s = 0;
    for (int i = thread; thread < 16 && i < n; i += 16) s = fmaf(row[i], row[i], s);
    s = tree_of_16(s);
    if (thread == 0) row[n] = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
  }
  __syncthreads();
  const float scale = row[n];
  float* y = args.y + blockIdx.x * args.y_stride;
  // Without rounding n may be any number; with it a warp has whole blocks.
  for (int i = thread; i < n; i += kNormThreads) {
    const float v = row[i] * scale * args.weight[i];
    y[i] = v;
    if (args.rounded.q != nullptr) {
      const int64_t block = static_cast<int64_t>(blockIdx.x) * (n / kWarp) + i / kWarp;
      round_block(v, thread % kWarp, block, args.rounded);
    }
  }
}

CHIMERE_KERNEL(gated_rms_norm, kNormThreads, GatedRmsNormArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int warps = kNormThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int unit = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  if (unit >= args.rows * args.heads) return;
  const int row = unit / args.heads;
  const int n = args.head_dim;
  const int64_t begin = static_cast<int64_t>(unit % args.heads) * n;
  const float* x = args.x + row * args.x_stride + begin;
  const float* z = args.z + row * args.z_stride + begin;
  float* y = args.y + row * args.y_stride + begin;
  float s = 0;
  for (int i = lane; lane < 16 && i < n; i += 16) s = fmaf(x[i], x[i], s);
  s = __shfl_sync(kFullWarp, tree_of_16(s), 0);
  const float scale = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
  for (int i = lane; i < n; i += kWarp) y[i] = x[i] * scale * args.weight[i] * silu(z[i]);
}

}  // namespace chimere::kernels::cuda
