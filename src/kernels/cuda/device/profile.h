// Profiles: run one GPU within the limits of another, so that the launch configurations of a GPU
// can be tested and timed where none is present.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "kernels/cuda/device/device_facts.h"

namespace chimere::kernels::cuda {

/// The limits of a GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
struct ProfileLimits {
  int compute_capability;  ///< that launch configurations see
  int64_t shared_bytes;    ///< most shared memory of a block, static and dynamic
  int64_t shared_bytes_of_multiprocessor;
};

/// nullptr for kNative, which has no limits below the GPU's own.
const ProfileLimits* limits_of(Profile profile);

/// Percentage of a multiprocessor's `shared_bytes` of shared memory to request from the driver,
/// which rounds up to the next size that the GPU supports: 100 KiB on compute capability 9.0 (228
/// KiB) and 8.0 (164 KiB).
int shared_carveout(const ProfileLimits& limits, int64_t shared_bytes);

/// "native", "sm_120".
std::string_view profile_name(Profile profile);
/// Errors: kInvalidArgument; the message lists the valid names.
Result<Profile> parse_profile(std::string_view name);

/// The facts of a device, given its `native` ones, that launch configurations see under `profile`.
DeviceFacts facts_under(Profile profile, DeviceFacts native);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_
