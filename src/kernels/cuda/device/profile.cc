#include "kernels/cuda/device/profile.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace chimere::kernels::cuda {
namespace {

constexpr ProfileLimits kSm120Limits = {120, 99 << 10, 100 << 10};

struct Named {
  std::string_view name;
  Profile profile;
  const ProfileLimits* limits;
};
constexpr std::array<Named, 2> kProfiles = {
    {{"native", Profile::kNative, nullptr}, {"sm_120", Profile::kSm120, &kSm120Limits}}};

const Named& named(Profile profile) {
  return *std::ranges::find(kProfiles, profile, &Named::profile);
}

}  // namespace

const ProfileLimits* limits_of(Profile profile) { return named(profile).limits; }

int shared_carveout(const ProfileLimits& limits, int64_t shared_bytes) {
  const int64_t wanted = limits.shared_bytes_of_multiprocessor;
  return wanted >= shared_bytes ? 100 : static_cast<int>(100 * wanted / shared_bytes);
}

std::string_view profile_name(Profile profile) { return named(profile).name; }

Result<Profile> parse_profile(std::string_view name) {
  const auto* const found = std::ranges::find(kProfiles, name, &Named::name);
  if (found != kProfiles.end()) return found->profile;
  std::string names;
  for (const Named& p : kProfiles) names += (names.empty() ? "" : ", ") + std::string(p.name);
  return invalid_argument("there is no profile '" + std::string(name) + "'; one of " + names);
}

DeviceFacts facts_under(Profile profile, DeviceFacts native) {
  native.profile = profile;
  native.own_capability = native.compute_capability;
  const ProfileLimits* const limits = limits_of(profile);
  if (limits == nullptr) return native;
  native.compute_capability = limits->compute_capability;
  native.shared_bytes = std::min(native.shared_bytes, limits->shared_bytes);
  return native;
}

}  // namespace chimere::kernels::cuda
