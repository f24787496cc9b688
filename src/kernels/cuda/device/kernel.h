// Kernel names and launch shapes.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// A CHIMERE_KERNEL. On a GPU: function `name` of the module compiled from `module`.cu. In the
/// emulator: the function registered as `name`. Declare instances as constants: a device caches
/// kernels by the address of `name`.
struct Kernel {
  const char* module;
  const char* name;
};

struct Dim {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

struct Launch {
  Dim grid;
  Dim block;
  uint32_t shared_bytes = 0;  ///< dynamic shared memory of a block
  /// The kernel's blocks may start before the previous kernel's blocks have ended. The kernel must
  /// call wait_for_previous_kernel() (ptx/dependent_launch.h) before it reads what another kernel
  /// wrote.
  bool overlaps_previous = false;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_
