// Powers of two by the GPU's special function unit (PTX ISA, ex2): within 2 units in the last
// place; subnormal results are 0.
#ifndef CHIMERE_KERNELS_CUDA_PTX_EXP2_H_
#define CHIMERE_KERNELS_CUDA_PTX_EXP2_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

__device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_EXP2_H_
