#include "serving/key_usage.h"

#include <algorithm>

namespace chimere::serving {

using protocol::ApiError;
using Clock = std::chrono::steady_clock;

std::optional<ApiError> KeyUsage::begin(const ApiKey* key) {
  if (key == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Use& use = by_name_[key->name];
  if (Clock::now() - use.minute_began > std::chrono::minutes(1)) {
    use.minute_began = Clock::now();
    use.this_minute = 0;
  }
  if (key->parallel > 0 && use.active >= key->parallel) {
    return ApiError{"too_many_parallel_requests",
                    "This key is limited to " + std::to_string(key->parallel) +
                        " concurrent requests; wait for one to finish.",
                    "", 1};
  }
  if (key->per_minute > 0 && use.this_minute >= key->per_minute) {
    const auto passed =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - use.minute_began);
    const int wait = 60 - static_cast<int>(passed.count());
    return ApiError{
        "rate_limit_exceeded",
        "This key is limited to " + std::to_string(key->per_minute) + " requests per minute.", "",
        std::max(1, wait)};
  }
  ++use.active;
  ++use.this_minute;
  return std::nullopt;
}

void KeyUsage::end(const ApiKey* key) {
  if (key == nullptr) return;
  const std::lock_guard lock(mutex_);
  --by_name_[key->name].active;
}

}  // namespace chimere::serving
