// Counts the requests and tokens of each API key against its limits.
#ifndef CHIMERE_SERVING_KEY_USAGE_H_
#define CHIMERE_SERVING_KEY_USAGE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/api_error.h"
#include "serving/api_keys.h"

namespace chimere::serving {

/// Any thread. A null key has no limits and is not counted.
class KeyUsage {
 public:
  /// Tokens of a day (UTC) by the names of keys.
  struct Day {
    std::chrono::sys_days day;
    std::map<std::string, int64_t> tokens;

    bool operator==(const Day&) const = default;
  };

  /// Continues with what was counted before a restart, unless its day has passed.
  void resume(const Day& before);
  /// What was counted today.
  Day today() const;

  /// A key that has been used since the start, or today.
  struct Budget {
    std::string key;
    int64_t tokens = 0;  ///< of today
    int64_t limit = 0;   ///< tokens a day; 0: none, or not known yet
  };
  std::vector<Budget> budgets() const;

  /// Counts a request, which ends with end(), or returns the 429 that refuses it.
  std::optional<protocol::ApiError> begin(const ApiKey* key);
  /// `tokens`: of its prompt and its generations.
  void end(const ApiKey* key, int64_t tokens);

 private:
  struct Use {
    int64_t active = 0;
    int64_t this_minute = 0;
    std::chrono::steady_clock::time_point minute_began;
    int64_t tokens = 0;  ///< of `day`
    int64_t limit = 0;   ///< of the key, when it was last used
    std::chrono::sys_days day;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Use> by_name_;
};

/// Reads what write_usage() has written. Errors: kNotFound, kIo, kInvalidData.
Result<KeyUsage::Day> read_usage(const std::string& path);
/// Replaces the file, which no other process should write. Errors: kIo, kOutOfSpace.
Status write_usage(const std::string& path, const KeyUsage::Day& usage);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_KEY_USAGE_H_
