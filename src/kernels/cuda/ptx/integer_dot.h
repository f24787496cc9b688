// The dot product of four unsigned and four signed bytes (PTX ISA, dp4a; __dp4a() takes both signed
// or both unsigned).
#ifndef CHIMERE_KERNELS_CUDA_PTX_INTEGER_DOT_H_
#define CHIMERE_KERNELS_CUDA_PTX_INTEGER_DOT_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// sum + the dot product of the unsigned bytes of `a` and the signed ones of `b`.
__device__ __forceinline__ int dot_unsigned(uint32_t a, uint32_t b, int sum) {
#ifdef __CUDACC__
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
#else
  for (uint32_t i = 0; i < 32; i += 8) {
    sum += static_cast<int>((a >> i) & 255U) * static_cast<int8_t>(b >> i);
  }
#endif
  return sum;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_INTEGER_DOT_H_
