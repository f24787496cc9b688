// One event of the log as one line: key=value pairs ("logfmt").
#ifndef CHIMERE_SERVING_LOG_LINE_H_
#define CHIMERE_SERVING_LOG_LINE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::serving {

/// `time=2026-01-31T12:00:00Z event=request status=200 path=/v1/models`. What holds spaces, quotes,
/// control characters or bytes beyond ASCII is quoted and escaped, so that nobody can write lines
/// of his own.
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
