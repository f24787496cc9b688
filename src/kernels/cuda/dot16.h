// Device code: the tree of rule 2 of docs/numerics.md, with its 16 partial sums on 16 lanes.
#ifndef CHIMERE_KERNELS_CUDA_DOT16_H_
#define CHIMERE_KERNELS_CUDA_DOT16_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// The tree of 16 over lanes 0..15 of a warp, and over lanes 16..31; all lanes of a half get its
/// result. Every node of the tree is s[j] + s[j + h]; addition commutes, so the lanes may disagree
/// about the order of the operands.
__device__ __forceinline__ float tree_of_16(float s) {
  for (int h = 8; h > 0; h /= 2) s = s + __shfl_xor_sync(kFullWarp, s, h);
  return s;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DOT16_H_
