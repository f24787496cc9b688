#include "serving/log_line.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

namespace chimere::serving {

LogLine::LogLine(std::string_view event)
    : text_(fmt::format("time={:%Y-%m-%dT%H:%M:%S}Z event={}",
                        std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()),
                        event)) {}

LogLine& LogLine::add(std::string_view key, std::string_view value) {
  bool plain = !value.empty();
  for (const char c : value) plain &= c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != '=';
  if (plain) {
    text_ += fmt::format(" {}={}", key, value);
    return *this;
  }
  text_ += fmt::format(" {}=\"", key);
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      text_ += fmt::format("\\x{:02x}", byte);
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

LogLine& LogLine::add(std::string_view key, int64_t value) {
  text_ += fmt::format(" {}={}", key, value);
  return *this;
}

LogLine& LogLine::add_seconds(std::string_view key, double seconds) {
  text_ += fmt::format(" {}={:.1f}", key, seconds * 1000);
  return *this;
}

}  // namespace chimere::serving
