// What is known of a device before any work is done.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_

#include <cstdint>
#include <string>

namespace chimere::kernels::cuda {

/// Whose limits choices of launches keep to (profile.h).
enum class Profile {
  kNative,  ///< the device's own
  kSm120,   ///< those of compute capability 12.0
};

/// What choices of launches depend on.
struct DeviceFacts {
  std::string name;
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 1;
  int64_t shared_bytes = 48 << 10;  ///< most dynamic shared memory of a block
  int64_t memory_bytes = 0;         ///< of the GPU
  Profile profile = Profile::kNative;
  /// Of the GPU itself, whose tensor cores give prefill rows their bits.
  int own_capability = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_DEVICE_FACTS_H_
