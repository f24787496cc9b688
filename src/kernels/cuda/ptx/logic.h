// Bitwise operations that the compiler does not find by itself (PTX ISA, lop3 and shf.wrap).
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

/// The bits of x where `mask` has ones, elsewhere those of y.
__device__ __forceinline__ uint32_t select_bits(uint32_t x, uint32_t y, uint32_t mask) {
#ifdef __CUDACC__
  uint32_t z;
  asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(z) : "r"(x), "r"(y), "r"(mask));
  return z;
#else
  return (x & mask) | (y & ~mask);
#endif
}

/// x rotated to the left by `bits`, 0 to 31.
__device__ __forceinline__ uint32_t rotate_left(uint32_t x, int bits) {
#ifdef __CUDACC__
  uint32_t y;
  asm("shf.l.wrap.b32 %0, %1, %1, %2;" : "=r"(y) : "r"(x), "r"(bits));
  return y;
#else
  return std::rotl(x, bits);
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_LOGIC_H_
