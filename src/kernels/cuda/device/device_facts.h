// The properties of a device that launch configurations depend on.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_

#include <cstdint>
#include <string>

namespace chimere::kernels::cuda {

/// The hardware limits that launch configurations respect (profile.h).
enum class Profile {
  kNative,  ///< the device's own
  kSm120,   ///< those of compute capability 12.0
};

/// Properties of a device, under its profile.
struct DeviceFacts {
  std::string name;
  int compute_capability = 0;  ///< 10 * major + minor: 90 for 9.0
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  ///< most dynamic shared memory of a block
  int64_t memory_bytes = 0;         ///< total memory of the GPU
  Profile profile = Profile::kNative;
  /// Compute capability of the GPU itself, under any profile. It decides which tensor-core
  /// instructions, and therefore which bits, prefill rows get.
  int own_capability = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_
