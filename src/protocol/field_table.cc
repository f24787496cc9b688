#include "protocol/field_table.h"

#include <algorithm>
#include <string>

namespace chimere::protocol {

void check_text(Fields& fields, const FieldInfo& info, const std::string& text) {
  if (info.max_bytes > 0 && static_cast<int64_t>(text.size()) > info.max_bytes) {
    return fields.fail("'" + fields.path_of(info.name) + "' may have at most " +
                           std::to_string(info.max_bytes) + " bytes.",
                       info.name);
  }
  if (info.choices.empty() || std::ranges::find(info.choices, text) != info.choices.end()) return;
  std::string names;
  for (const std::string_view choice : info.choices) {
    names += names.empty() ? "" : ", ";
    names += choice;
  }
  fields.fail("'" + fields.path_of(info.name) + "' must be one of " + names + ".", info.name);
}

}  // namespace chimere::protocol
