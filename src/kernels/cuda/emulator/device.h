// A Device that runs kernels on the host, for tests.
#ifndef CHIMERE_KERNELS_CUDA_EMULATOR_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_EMULATOR_DEVICE_H_

#include <memory>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/emulator/block.h"

namespace chimere::kernels::cuda {

/// Device memory is host memory. Work runs when the host synchronises, or is captured and replayed
/// like a GPU's. Shared memory is limited to 99 KiB, the least of the supported GPUs, under any
/// profile.
std::unique_ptr<Device> make_emulator(emulator::Order order, Profile profile = Profile::kNative);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_EMULATOR_DEVICE_H_
