// A value whose origin is hidden from the optimiser.
#ifndef CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_
#define CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Returns x. Values derived from it are not computed earlier: in a loop around a switch, the
/// compiler would otherwise hoist each case's addresses into registers.
__device__ __forceinline__ int opaque(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_OPAQUE_H_
