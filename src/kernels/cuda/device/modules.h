// Device code embedded in the program by the build (cmake/ChimereCuda.cmake).
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_

#include <cstdint>
#include <span>

namespace chimere::kernels::cuda {

struct EmbeddedModule {
  const char* name;      ///< of the .cu file, without its extension
  const uint8_t* image;  ///< a fat binary: machine code for some architectures, PTX for newer ones
  /// The same code built without warpgroup products (ptx/warpgroup_mma.h); nullptr if `image` uses
  /// none on any architecture.
  const uint8_t* without_warpgroups;
};

/// Empty in a program built without nvcc.
std::span<const EmbeddedModule> embedded_modules();

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_MODULES_H_
