// The arguments of calls, and how functions, filters and tests read them.
#ifndef CHIMERE_TEXT_JINJA_ARGUMENTS_H_
#define CHIMERE_TEXT_JINJA_ARGUMENTS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace chimere::text::jinja {

/// The arguments of a call of a function, filter or test.
class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at a position or with a name; nullptr if it is not given.
  const Value* find(size_t position, std::string_view name) const;
  Value get(size_t position, std::string_view name, const Value& otherwise) const;
  /// These fail, naming the function, if the argument is missing or of another kind.
  const Value& require(size_t position, std::string_view name, std::string_view function) const;
  int64_t integer(size_t position, std::string_view name, int64_t otherwise) const;
  /// With none for the default, too.
  int64_t integer_or_none(size_t position, std::string_view name, int64_t otherwise) const;
  bool truth(size_t position, std::string_view name, bool otherwise) const;
};

/// Fails, naming the function, unless the arguments are what Python would accept. `parameters` are
/// names, those in brackets may be missing: "old new [count]". After a slash they have no names for
/// the caller; "*" takes everything.
void check_arguments(std::string_view function, std::string_view parameters,
                     const Arguments& arguments);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_ARGUMENTS_H_
