#include "protocol/json_text.h"

#include <algorithm>

namespace chimere::protocol {
namespace {

ApiError damaged(const std::string& what) {
  return bad_field("The body is not a valid JSON request: " + what + ".", "", "invalid_json");
}

/// Checks nesting and the number of values by counting brackets and commas outside strings, before
/// anything is allocated. Never counts fewer values than the parser creates.
std::optional<ApiError> check_size(std::string_view text, const JsonLimits& limits) {
  int64_t depth = 0;
  int64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > limits.nesting) {
        return damaged("it is nested deeper than " + std::to_string(limits.nesting) + " levels");
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
  }
  if (values > limits.values) {
    return damaged("it holds more than " + std::to_string(limits.values) + " values");
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> parse_object(std::string_view text, const JsonLimits& limits, Json& out) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return damaged("it is empty; send an object");
  }
  if (auto error = check_size(text, limits)) return error;
  try {
    out = Json::parse(text);
  } catch (const Json::parse_error& e) {
    return damaged("syntax error at byte " + std::to_string(e.byte));
  } catch (const Json::out_of_range&) {
    return damaged("it holds a number that is too large");
  }
  if (!out.is_object()) return damaged("it must be an object");
  return std::nullopt;
}

std::string to_text(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace chimere::protocol
