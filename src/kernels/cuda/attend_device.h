// Device code: the final steps of attention, applied to the weighted sums of a row's heads.
#ifndef CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_

#include "kernels/cuda/kv_device.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Applies the normalised Hadamard transform in place to `heads` heads of n elements in shared
/// memory. All threads of the block take part; the caller synchronises before and after.
__device__ __forceinline__ void rotate_heads(float* x, int heads, int n) {
  const int block = n & -n;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  for (int distance = 1; distance < block; distance *= 2) {
    for (int h = 0; h < heads; ++h) {
      for (int pair = thread; pair < n / 2; pair += threads) {
        const int within = pair & (distance - 1);
        float* low = x + h * n + 2 * (pair - within) + within;
        const float a = low[0];
        const float b = low[distance];
        low[0] = a + b;
        low[distance] = a - b;
      }
    }
    __syncthreads();
  }
  const float scale = 1.0F / sqrtf(static_cast<float>(block));
  for (int i = thread; i < heads * n; i += threads) x[i] = x[i] * scale;
}

/// Writes element i of head h of a row's result, times its gate if the layer is gated, and returns
/// it. Padding (`real` false) is not written.
__device__ __forceinline__ float write_element(const AttendArgs& args, int row, int64_t h, int i,
                                               bool real, float o) {
  const int n = args.dims.head_dim;
  if (args.dims.gated != 0) {
    o = o * sigmoid(args.qg.data[row * args.qg.stride + (2 * h + 1) * n + i]);
  }
  if (real) args.out.data[row * args.out.stride + h * n + i] = o;
  return o;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_
