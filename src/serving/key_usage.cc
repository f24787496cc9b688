#include "serving/key_usage.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_stream.h"

namespace chimere::serving {

using protocol::ApiError;
using Clock = std::chrono::steady_clock;

std::optional<ApiError> KeyUsage::begin(const ApiKey* key) {
  if (key == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Use& use = by_name_[key->name];
  use.limit = key->tokens_per_day;
  if (Clock::now() - use.minute_began > std::chrono::minutes(1)) {
    use.minute_began = Clock::now();
    use.this_minute = 0;
  }
  const auto now = std::chrono::system_clock::now();
  const auto today = std::chrono::floor<std::chrono::days>(now);
  if (use.day != today) {
    use.day = today;
    use.tokens = 0;
  }
  if (key->tokens_per_day > 0 && use.tokens >= key->tokens_per_day) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(today + std::chrono::days(1) - now);
    return ApiError{"token_budget_exceeded",
                    "This key is limited to " + std::to_string(key->tokens_per_day) +
                        " tokens a day (UTC), and has used " + std::to_string(use.tokens) + ".",
                    "", static_cast<int>(left.count())};
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

void KeyUsage::end(const ApiKey* key, int64_t tokens) {
  if (key == nullptr) return;
  const std::lock_guard lock(mutex_);
  Use& use = by_name_[key->name];
  --use.active;
  use.tokens += tokens;
}

void KeyUsage::resume(const Day& before) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, tokens] : before.tokens) {
    Use& use = by_name_[name];
    use.day = before.day;
    use.tokens = tokens;
  }
}

KeyUsage::Day KeyUsage::today() const {
  const std::lock_guard lock(mutex_);
  Day out = {std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()), {}};
  for (const auto& [name, use] : by_name_) {
    if (use.day == out.day && use.tokens > 0) out.tokens[name] = use.tokens;
  }
  return out;
}

std::vector<KeyUsage::Budget> KeyUsage::budgets() const {
  const std::lock_guard lock(mutex_);
  const auto day = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  std::vector<Budget> out;
  for (const auto& [name, use] : by_name_) {
    out.push_back({name, use.day == day ? use.tokens : 0, use.limit});
  }
  return out;
}

Result<KeyUsage::Day> read_usage(const std::string& path) {
  CHIMERE_TRY(InputFile file, InputFile::open(path));
  constexpr uint64_t kLargest = 16 << 20;
  std::string text(std::min(file.remaining(), kLargest), ' ');
  CHIMERE_CHECK_OK(file.read({reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  const Error damaged =
      invalid_data("The file " + path + " of used tokens is damaged; the day's count begins anew.");
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("day") || !document.contains("tokens")) {
    return damaged;
  }
  const auto& day = document["day"];
  const auto& tokens = document["tokens"];
  if (!day.is_number_integer() || !tokens.is_object()) return damaged;
  KeyUsage::Day out;
  out.day = std::chrono::sys_days(std::chrono::days(day.get<int32_t>()));
  for (const auto& [name, n] : tokens.items()) {
    if (!n.is_number_unsigned()) return damaged;
    out.tokens[name] = n.get<int64_t>();
  }
  return out;
}

Status write_usage(const std::string& path, const KeyUsage::Day& usage) {
  const nlohmann::json document = {{"day", usage.day.time_since_epoch().count()},
                                   {"tokens", usage.tokens}};
  const std::string text = document.dump() + "\n";
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.commit();
}

}  // namespace chimere::serving
