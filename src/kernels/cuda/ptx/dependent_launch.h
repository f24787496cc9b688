// Programmatic dependent launch (PTX ISA, griddepcontrol; compute capability 9.0 and later): a
// kernel's blocks start while the last blocks of the previous kernel still run.
#ifndef CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_
#define CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Waits for the previous kernel's results. In a kernel launched with overlaps_previous, every
/// thread calls it before it touches memory that another kernel reads or writes, even if it then
/// has nothing to do. Before the call a kernel may read weights and the step's arrays (BatchArgs),
/// which are copied before the step's first kernel starts, after the previous step's last one; so
/// also what only earlier steps have written. To warm the instruction cache, it may read any
/// readable memory whose values it discards.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks start once all blocks have called this or ended. It does not imply
/// that results are ready, and may be called anywhere.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_DEPENDENT_LAUNCH_H_
