// Exact conversion of f16 bits to f32.
#ifndef CHIMERE_KERNELS_CUDA_PTX_HALF_H_
#define CHIMERE_KERNELS_CUDA_PTX_HALF_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

__device__ __forceinline__ float f16_bits_to_f32(uint32_t h) {
#ifdef __CUDACC__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<uint16_t>(h)));
  return f;
#else
  const uint32_t sign = (h & 0x8000U) << 16U;
  const uint32_t exponent = (h >> 10U) & 31U;
  const uint32_t fraction = h & 1023U;
  if (exponent == 31) return __uint_as_float(sign | 0x7F800000U | (fraction << 13U));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return __uint_as_float(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_HALF_H_
