// References between schemas.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_URI_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_URI_H_

#include <string>
#include <string_view>
#include <vector>

namespace chimere::constraints::json_schema {

/// The absolute form of `reference` by RFC 3986, section 5.2. `base` may be empty or relative.
std::string resolve_uri(std::string_view base, std::string_view reference);

struct SplitUri {
  std::string document;  ///< without '#'
  std::string fragment;  ///< percent-decoded
};
SplitUri split_fragment(std::string_view uri);

/// The tokens of a JSON pointer ("/a/b~1c": "a", "b/c").
std::vector<std::string> pointer_tokens(std::string_view pointer);
/// A token as it is written in a pointer.
std::string escape_pointer_token(std::string_view token);

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_URI_H_
