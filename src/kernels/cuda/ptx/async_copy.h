// Asynchronous copies from device memory to shared memory (PTX ISA, cp.async; compute capability
// 8.0 and later).
#ifndef CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_
#define CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Starts a copy of 16 bytes, aligned to 16, or writes 16 zeros if `there` is false.
__device__ __forceinline__ void start_copy(void* shared, const void* global, bool there) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(bytes)
               : "memory");
#else
  if (there) {
    std::memcpy(shared, global, 16);
  } else {
    std::memset(shared, 0, 16);
  }
#endif
}

/// Starts a copy of kBytes (4, 8 or 16); both addresses are aligned to kBytes.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint8_t* shared, const uint8_t* from) {
#ifdef __CUDACC__
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
  }
#else
  std::memcpy(shared, from, kBytes);
#endif
}

/// Closes a group: the copies that this thread started since its last group.
__device__ __forceinline__ void end_copy_group() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for all copy groups of this thread except the last kGroups.
template <int kGroups>
__device__ __forceinline__ void wait_for_older_groups() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

/// Prefetches the line at an address into L2.
__device__ __forceinline__ void prefetch(const void* global) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#else
  (void)global;
#endif
}

/// Prefetches the line at an address into L1.
__device__ __forceinline__ void prefetch_near(const void* global) {
#ifdef __CUDACC__
  asm volatile("prefetch.global.L1 [%0];" ::"l"(global));
#else
  (void)global;
#endif
}

/// Waits for the copies that this thread started. Other threads see them after a barrier.
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_ASYNC_COPY_H_
