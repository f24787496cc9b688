// Copies from device memory to shared memory that go on while their thread does other things (PTX
// ISA, cp.async; compute capability 8.0 and later).
#ifndef CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_
#define CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Begins a copy of kBytes, 4, 8 or 16, to which both addresses are aligned.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint8_t* shared, const uint8_t* from) {
#if defined(__CUDA_ARCH__)
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
  }
#else
  __builtin_memcpy(shared, from, kBytes);
#endif
}

/// Waits for the calling thread's copies; the block's other threads see them behind a barrier.
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_
