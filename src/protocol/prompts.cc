#include "protocol/prompts.h"

#include <utility>

namespace chimere::protocol {

bool read_tokens(Fields& fields, const Json& list, std::string_view name,
                 std::vector<int32_t>& out) {
  out.reserve(list.size());
  for (const Json& item : list) {
    const bool number = item.is_number_unsigned() && item.get<uint64_t>() <= INT32_MAX;
    if (!number) {
      fields.fail("'" + fields.path_of(name) + "' must be a list of token ids.", name,
                  "invalid_type");
      return false;
    }
    out.push_back(item.get<int32_t>());
  }
  return true;
}

void read_prompts(Fields& fields, std::string_view name, int64_t most, std::vector<Prompt>& out) {
  const Json* prompt = fields.any(name);
  if (prompt == nullptr) return fields.missing(name);
  const auto wrong = [&] {
    fields.fail("'" + fields.path_of(name) +
                    "' must be a text, a list of texts, a list of token ids or a list of such "
                    "lists.",
                name, "invalid_type");
  };
  if (prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) return wrong();
  if (prompt->front().is_number()) {
    std::vector<int32_t> tokens;
    if (read_tokens(fields, *prompt, name, tokens)) out.emplace_back(std::move(tokens));
    return;
  }
  if (static_cast<int64_t>(prompt->size()) > most) {
    return fields.fail(
        "'" + fields.path_of(name) + "' has more than " + std::to_string(most) + " entries.", name);
  }
  for (const Json& item : *prompt) {
    if (item.is_string()) {
      out.emplace_back(item.get<std::string>());
    } else if (item.is_array() && !item.empty()) {
      std::vector<int32_t> tokens;
      if (!read_tokens(fields, item, name, tokens)) return;
      out.emplace_back(std::move(tokens));
    } else {
      return wrong();
    }
  }
}

}  // namespace chimere::protocol
