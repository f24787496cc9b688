// Parsing of the JSON files of a model folder, which are untrusted.
#ifndef CHIMERE_CONVERT_JSON_TEXT_H_
#define CHIMERE_CONVERT_JSON_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere::convert {

using Json = nlohmann::json;

/// Parses one object; `what` names the text in messages. Errors: kInvalidData for anything else, a
/// name that an object has twice, and more than 64 levels.
Result<Json> parse_json(std::string_view text, const std::string& what);

/// Reads a whole file. Errors: kNotFound, kIo, kInvalidData if it is longer than 256 MB.
Result<std::string> read_text(const std::string& path);
/// Both; nullopt if the file does not exist.
Result<std::optional<Json>> read_json(const std::string& path);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_JSON_TEXT_H_
