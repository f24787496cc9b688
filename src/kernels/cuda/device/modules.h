// Device code that the build put into the program (cmake/ChimereCuda.cmake).
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_

#include <cstdint>
#include <span>

namespace chimere::kernels::cuda {

struct EmbeddedModule {
  const char* name;      ///< of the .cu file, without its ending
  const uint8_t* image;  ///< a fat binary: machine code for some architectures, PTX for later ones
  /// The same without products by warpgroups (ptx/warpgroup_mma.h), where `image` has any for some
  /// architecture; nullptr: `image` has none.
  const uint8_t* without_warpgroups;
};

/// Empty in a program that was built without nvcc.
std::span<const EmbeddedModule> embedded_modules();

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_
