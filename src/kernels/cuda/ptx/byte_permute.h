// The byte permutation's mode that repeats sign bits (PTX ISA, prmt), which the intrinsic
// __byte_perm() leaves out: it looks at three bits of each selector.
#ifndef CHIMERE_KERNELS_CUDA_PTX_BYTE_PERMUTE_H_
#define CHIMERE_KERNELS_CUDA_PTX_BYTE_PERMUTE_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Eight times bit 7 of each byte.
__device__ __forceinline__ uint32_t repeat_sign_bits(uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  uint32_t mask;
  asm("prmt.b32 %0, %1, 0, 0xBA98;" : "=r"(mask) : "r"(bytes));
  return mask;
#else
  return ((bytes >> 7U) & 0x01010101U) * 255U;
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_BYTE_PERMUTE_H_
