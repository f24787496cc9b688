#include "text/jinja/callable.h"

namespace chimere::text::jinja {

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [given, value] : named) {
    if (given == name) return &value;
  }
  return nullptr;
}

Value Arguments::get(size_t position, std::string_view name, const Value& otherwise) const {
  const Value* value = find(position, name);
  return value == nullptr ? otherwise : *value;
}

const Value& Arguments::require(size_t position, std::string_view name,
                                std::string_view function) const {
  const Value* value = find(position, name);
  if (value == nullptr) {
    fail("'" + std::string(function) + "' needs the argument '" + std::string(name) + "'.");
  }
  return *value;
}

int64_t Arguments::integer(size_t position, std::string_view name, int64_t otherwise) const {
  const Value* value = find(position, name);
  if (value == nullptr || value->is_none()) return otherwise;
  if (!value->is_bool() && !value->is_integer()) {
    fail("The argument '" + std::string(name) + "' must be an integer, not a " +
         value->type_name() + ".");
  }
  return value->as_integer();
}

bool Arguments::truth(size_t position, std::string_view name, bool otherwise) const {
  const Value* value = find(position, name);
  return value == nullptr ? otherwise : value->truth();
}

}  // namespace chimere::text::jinja
