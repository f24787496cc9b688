// Fields that take texts or token ids. Internal to the module.
#ifndef CHIMERE_PROTOCOL_PROMPTS_H_
#define CHIMERE_PROTOCOL_PROMPTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "protocol/fields.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// Reads a list of token ids. False, with an error in `fields`, if it is anything else.
bool read_tokens(Fields& fields, const Json& list, std::string_view name,
                 std::vector<int32_t>& out);

/// Reads field `name`: a text, a list of texts, a list of token ids, or a list of such lists; at
/// most `most` prompts.
void read_prompts(Fields& fields, std::string_view name, int64_t most, std::vector<Prompt>& out);

inline constexpr std::string_view kPromptsType =
    "text, list of texts, list of token ids, or list of such lists";
inline constexpr std::string_view kValidPrompts = R"(["x", ["x", "y"], [1, 2], [[1, 2], [3]]])";
inline constexpr std::string_view kInvalidPrompts = R"([[], {}, 1, [1, "x"], [[1, -2]], [[]]])";

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_PROMPTS_H_
