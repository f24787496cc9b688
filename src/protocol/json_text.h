// JSON that nobody vouches for. For sources of this room only: others see plain data.
#ifndef CHIMERE_PROTOCOL_JSON_TEXT_H_
#define CHIMERE_PROTOCOL_JSON_TEXT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/api_error.h"

namespace chimere::protocol {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  int64_t nesting = 32;
  int64_t values = 2'000'000;  ///< a token id of a prompt is one; bounds what parsing takes
};

/// Reads one object. Errors (400): damaged or non-UTF-8 text with the byte, too deep, too many
/// values, no object, or an object that has a name twice (`duplicate_field`, with its path).
std::optional<ApiError> parse_object(std::string_view text, const JsonLimits& limits, Json& out);

/// One line; bytes that are no UTF-8 become U+FFFD: a model may end inside a character.
std::string to_text(const Json& document);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_JSON_TEXT_H_
