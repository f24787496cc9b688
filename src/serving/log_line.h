// One log event as a line of key=value pairs ("logfmt").
#ifndef CHIMERE_SERVING_LOG_LINE_H_
#define CHIMERE_SERVING_LOG_LINE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::serving {

/// `time=2026-01-31T12:00:00Z event=request status=200 path=/v1/models`. Values with spaces,
/// quotes, control characters or non-ASCII bytes are quoted and escaped, so that clients cannot
/// inject log lines.
class LogLine {
 public:
  explicit LogLine(std::string_view event);
  LogLine& add(std::string_view key, std::string_view value);
  LogLine& add(std::string_view key, int64_t value);
  LogLine& add_seconds(std::string_view key, double seconds);  ///< as milliseconds
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_LOG_LINE_H_
