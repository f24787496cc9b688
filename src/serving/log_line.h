// One log event: a line of key=value pairs ("logfmt"), or of JSON.
#ifndef CHIMERE_SERVING_LOG_LINE_H_
#define CHIMERE_SERVING_LOG_LINE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace chimere::serving {

class LogLine {
 public:
  explicit LogLine(std::string_view event);
  LogLine& add(std::string_view key, std::string_view value);
  LogLine& add(std::string_view key, int64_t value);
  LogLine& add_seconds(std::string_view key, double seconds);  ///< as milliseconds

  /// `time=2026-01-31T12:00:00Z event=request status=200 path=/v1/models`. Values with spaces,
  /// quotes, control characters or non-ASCII bytes are quoted and escaped, so that clients cannot
  /// inject log lines.
  std::string text() const;
  /// {"time": "2026-01-31T12:00:00Z", "event": "request", "status": 200, ...} in one line.
  std::string json() const;

 private:
  std::vector<std::pair<std::string, std::variant<std::string, int64_t, double>>> values_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_LOG_LINE_H_
