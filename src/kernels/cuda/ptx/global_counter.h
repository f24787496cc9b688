// Counters in device memory by which blocks of a kernel pass results to each other (PTX ISA, memory
// consistency model; compute capability 7.0 and later).
#ifndef CHIMERE_KERNELS_CUDA_PTX_GLOBAL_COUNTER_H_
#define CHIMERE_KERNELS_CUDA_PTX_GLOBAL_COUNTER_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Adds to a counter. A thread that reads the sum with load_acquire() also sees what this thread,
/// and those that it shared a barrier with, wrote before.
__device__ __forceinline__ void add_release(uint32_t* counter, uint32_t v) {
#ifdef __CUDACC__
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(v) : "memory");
#else
  *counter += v;
#endif
}

/// The value of a counter.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* counter) {
#ifdef __CUDACC__
  uint32_t v = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(counter) : "memory");
  return v;
#else
  return *counter;
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_GLOBAL_COUNTER_H_
