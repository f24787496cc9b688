// Device code: rule 2 of docs/numerics.md by half warps.
#ifndef CHIMERE_KERNELS_CUDA_DOT_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_DOT_DEVICE_H_

#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// dot16 of x and y, n elements (a multiple of 16) in shared memory, once per half warp: its 16
/// lanes pass the same x and y, and all get the result. All lanes of the warp take part.
__device__ __forceinline__ float half_warp_dot16(const float* x, const float* y, int n) {
  float s = 0;
  for (int i = static_cast<int>(threadIdx.x) % 16; i < n; i += 16) s = fmaf(x[i], y[i], s);
  return tree_of_16(s);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DOT_DEVICE_H_
