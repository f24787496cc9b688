// A value that the compiler must take as it comes.
#ifndef CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_
#define CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// x, from here on. What follows from it is not computed before: in a loop around a switch the
/// compiler would keep what every case might want in a register of its own.
__device__ __forceinline__ int opaque(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_
