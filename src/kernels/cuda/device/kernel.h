// Names of kernels and the shapes they are launched in.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// A CHIMERE_KERNEL: on a GPU the function `name` of the module made of `module`.cu, in the
/// emulator the function that registered itself under `name`. Declared as constants; a device knows
/// a kernel by the address of its name.
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
  /// Its blocks may start before the previous kernel's have ended; the kernel itself waits for
  /// their results (ptx/dependent_launch.h) before it reads anything that a kernel wrote.
  bool overlaps_previous = false;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_KERNEL_H_
