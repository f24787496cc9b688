// GPUs that another GPU can stand for, so that what is chosen for them can be tested and timed
// where there is none of them.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "kernels/cuda/device/device_facts.h"

namespace chimere::kernels::cuda {

/// What a GPU allows less of than the one that is present (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
struct ProfileLimits {
  int compute_capability;  ///< that choices see
  int64_t shared_bytes;    ///< most shared memory of a block, static and dynamic
  int64_t shared_bytes_of_multiprocessor;
};

/// nullptr for kNative: the GPU's own limits.
const ProfileLimits* limits_of(Profile profile);

/// The share, in percent, of a multiprocessor's shared memory that a GPU with `shared_bytes` of it
/// is asked to use. The driver takes the next division above that the GPU has: 100 KiB on
/// compute capability 9.0 (228 KiB) and 8.0 (164 KiB).
int shared_carveout(const ProfileLimits& limits, int64_t shared_bytes);

/// "native", "sm_120".
std::string_view profile_name(Profile profile);
/// Errors: kInvalidArgument, with the names that there are.
Result<Profile> parse_profile(std::string_view name);

/// `native`, the facts of a device, as choices of launches shall see them.
DeviceFacts facts_under(Profile profile, DeviceFacts native);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_PROFILE_H_
