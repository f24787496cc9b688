// 16-bit floating-point conversions (PTX ISA, cvt).
#ifndef CHIMERE_KERNELS_CUDA_PTX_FLOAT16_H_
#define CHIMERE_KERNELS_CUDA_PTX_FLOAT16_H_

#include "kernels/cuda/language.h"
#ifndef __CUDACC__
#include "quant/quant.h"
#endif

namespace chimere::kernels::cuda {

__device__ __forceinline__ float widen_f16(uint16_t h) {
#ifdef __CUDACC__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
#else
  return quant::f16_to_f32(h);
#endif
}

/// Rounds to nearest, ties to even; infinity from 65520 on.
__device__ __forceinline__ uint16_t round_f16(float f) {
#ifdef __CUDACC__
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  return quant::f32_to_f16(f);
#endif
}

/// Rounds to nearest, ties to even.
__device__ __forceinline__ uint16_t round_bf16(float f) {
#ifdef __CUDACC__
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  return quant::f32_to_bf16(f);
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_FLOAT16_H_
