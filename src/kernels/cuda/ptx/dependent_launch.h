// Programmatic dependent launch (PTX ISA, griddepcontrol; compute capability 9.0 and later): the
// blocks of a kernel start while the last ones of the kernel before it still run.
#ifndef CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_
#define CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Waits until the previous kernel's results are there. Every kernel that is launched with
/// overlaps_previous calls it, on all threads, before it reads or writes what another kernel
/// writes or reads, also if it has nothing to do. What comes before may touch weights and the
/// step's arrays (BatchArgs), which are copied before the step's first kernel starts; and, in
/// a rehearsal of which nothing remains, anything that may be read.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks start when all blocks have called this or ended. It does not say
/// that results are ready, and may be called at any place.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_
