// Parsing of untrusted JSON. Internal to the module: others see plain data.
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
  int64_t values = 2'000'000;  ///< each token id of a prompt is one; bounds the memory of parsing
};

/// For requests with schemas, which may be nested deeply: nothing that reads them is recursive.
inline constexpr JsonLimits kDeepJson{.nesting = 100'000};

/// Parses one object. Errors (400): malformed or non-UTF-8 text with the byte position, nesting too
/// deep, too many values, not an object, or an object with a duplicate name (`duplicate_field`,
/// with its path). An escape of half a surrogate pair becomes U+FFFD.
std::optional<ApiError> parse_object(std::string_view text, const JsonLimits& limits, Json& out);

/// JSON text with U+FFFD in place of escaped halves of surrogate pairs, which are left where a
/// client cut a character in two. `storage` holds it if it differs from `text`.
std::string_view with_whole_pairs(std::string_view text, std::string& storage);

/// One line, without recursion: a document may be nested as deeply as its limits allow. Invalid
/// UTF-8 becomes U+FFFD: a generation may end inside a character.
std::string to_text(const Json& document);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_JSON_TEXT_H_
