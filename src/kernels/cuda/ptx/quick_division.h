// Division without the branch that nvcc's division has for operands near the limits of f32: several
// divisions run side by side.
#ifndef CHIMERE_KERNELS_CUDA_PTX_QUICK_DIVISION_H_
#define CHIMERE_KERNELS_CUDA_PTX_QUICK_DIVISION_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Whether quick_divide() takes x and y, given that y is at least 1 or a NaN: 2^-60 <= |x| < 2^60
/// and y < 2^60. No value of its computation is then near an underflow or an overflow.
__device__ __forceinline__ bool divides_quickly(float x, float y) {
  constexpr uint32_t kLeast = (127U - 60U) << 23U;
  constexpr uint32_t kSpan = 120U << 23U;
  return __float_as_uint(fabsf(x)) - kLeast < kSpan && y < 0x1p60F;
}

/// x / y, correctly rounded, if divides_quickly(x, y): the operations of nvcc's own division for
/// operands that need no scaling.
__device__ __forceinline__ float quick_divide(float x, float y) {
#ifdef __CUDACC__
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(y));
  inverse = fmaf(inverse, fmaf(-y, inverse, 1.0F), inverse);
  const float quotient = fmaf(x, inverse, 0.0F);
  return fmaf(inverse, fmaf(-y, quotient, x), quotient);
#else
  return x / y;
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_QUICK_DIVISION_H_
