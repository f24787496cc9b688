// Device code: rule 2 of docs/numerics.md with the 16 partial sums on as many threads.
#ifndef CHIMERE_KERNELS_CUDA_DOT16_H_
#define CHIMERE_KERNELS_CUDA_DOT16_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// The tree of 16 over lanes 0..15 of a warp (and over 16..31 likewise): all lanes of a half get
/// its result. Every pairing of the tree is s[j] + s[j + h] with the lower partial on the left, and
/// addition commutes, so that the lanes need not agree on who is left.
__device__ __forceinline__ float tree_of_16(float s) {
  for (int h = 8; h > 0; h /= 2) s = s + __shfl_xor_sync(kFullWarp, s, h);
  return s;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DOT16_H_
