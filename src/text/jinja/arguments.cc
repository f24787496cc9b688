#include "text/jinja/arguments.h"

#include <algorithm>

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
  if (value == nullptr) return otherwise;
  if (!value->is_bool() && !value->is_integer()) {
    fail("The argument '" + std::string(name) + "' must be an integer, not a " +
         value->type_name() + ".");
  }
  return value->as_integer();
}

int64_t Arguments::integer_or_none(size_t position, std::string_view name,
                                   int64_t otherwise) const {
  const Value* value = find(position, name);
  return value != nullptr && value->is_none() ? otherwise : integer(position, name, otherwise);
}

bool Arguments::truth(size_t position, std::string_view name, bool otherwise) const {
  const Value* value = find(position, name);
  return value == nullptr ? otherwise : value->truth();
}

void check_arguments(std::string_view function, std::string_view parameters,
                     const Arguments& arguments) {
  if (parameters == "*") return;
  const auto& [positional, named] = arguments;
  const std::string what = "'" + std::string(function) + "'";
  const bool nameless = parameters.starts_with('/');
  if (nameless) parameters.remove_prefix(1);
  if (nameless && !named.empty()) fail(what + " takes no arguments with names.");
  size_t count = 0;
  size_t names_found = 0;
  while (!parameters.empty()) {
    const size_t space = std::min(parameters.find(' '), parameters.size());
    std::string_view name = parameters.substr(0, space);
    parameters.remove_prefix(std::min(space + 1, parameters.size()));
    const bool optional = name.starts_with('[');
    if (optional) name = name.substr(1, name.size() - 2);
    const auto given = std::ranges::count(named, name, [](const auto& n) { return n.first; });
    if (given + (count < positional.size() ? 1 : 0) > 1) {
      fail(what + " gets the argument '" + std::string(name) + "' twice.");
    }
    if (!optional && given == 0 && count >= positional.size()) {
      fail(what + " needs the argument '" + std::string(name) + "'.");
    }
    names_found += given;
    ++count;
  }
  if (positional.size() > count) {
    fail(what + " takes at most " + std::to_string(count) + " arguments.");
  }
  if (names_found < named.size()) fail(what + " gets an argument that it does not know.");
}

}  // namespace chimere::text::jinja
