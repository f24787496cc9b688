// Counts the requests of each API key against its limits.
#ifndef CHIMERE_SERVING_KEY_USAGE_H_
#define CHIMERE_SERVING_KEY_USAGE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "protocol/api_error.h"
#include "serving/api_keys.h"

namespace chimere::serving {

/// Any thread. A null key has no limits and is not counted.
class KeyUsage {
 public:
  /// Counts a request, which ends with end(), or returns the 429 that refuses it.
  std::optional<protocol::ApiError> begin(const ApiKey* key);
  void end(const ApiKey* key);

 private:
  struct Use {
    int64_t active = 0;
    int64_t this_minute = 0;
    std::chrono::steady_clock::time_point minute_began;
  };
  std::mutex mutex_;
  std::map<std::string, Use> by_name_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_KEY_USAGE_H_
