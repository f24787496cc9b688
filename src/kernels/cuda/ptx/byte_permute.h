// The sign-replicating mode of the byte permutation (PTX ISA, prmt). The intrinsic __byte_perm()
// does not offer it, because it uses only three bits of each selector.
#ifndef CHIMERE_KERNELS_CUDA_PTX_BYTE_PERMUTE_H_
#define CHIMERE_KERNELS_CUDA_PTX_BYTE_PERMUTE_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Bit 7 of each byte, replicated to all bits of the byte.
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
