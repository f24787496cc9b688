// Barriers of some of a block's warps (PTX ISA, barrier; compute capability 7.0 and later).
#ifndef CHIMERE_KERNELS_CUDA_PTX_NAMED_BARRIER_H_
#define CHIMERE_KERNELS_CUDA_PTX_NAMED_BARRIER_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Waits until `threads` threads, this one included, have arrived at barrier `barrier` of the block
/// (1 to 15; 0 is that of __syncthreads()), and sees what they wrote before. Every lane of the warp
/// makes the call; `threads` counts whole warps. The barrier can then be used again.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
#ifdef __CUDACC__
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#else
  emulator::named_barrier(barrier, threads, /*waits=*/true);
#endif
}

/// Arrives without waiting.
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
#ifdef __CUDACC__
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
#else
  emulator::named_barrier(barrier, threads, /*waits=*/false);
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_NAMED_BARRIER_H_
