// Bitwise operations on three operands (PTX ISA, lop3).
#ifndef CHIMERE_KERNELS_CUDA_PTX_LOGIC_H_
#define CHIMERE_KERNELS_CUDA_PTX_LOGIC_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// (x & mask) | bits in one instruction; with two constants the compiler would emit two.
__device__ __forceinline__ uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) {
#ifdef __CUDACC__
  uint32_t y;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
  return y;
#else
  return (x & mask) | bits;
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_LOGIC_H_
