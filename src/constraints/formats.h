// The languages of JSON Schema's string formats.
#ifndef CHIMERE_CONSTRAINTS_FORMATS_H_
#define CHIMERE_CONSTRAINTS_FORMATS_H_

#include <optional>
#include <string_view>

#include "constraints/regex.h"

namespace chimere::constraints {

/// What this library knows of a format.
enum class FormatSupport {
  kExact,    ///< format_language() is the language of the format
  kRefused,  ///< a format of JSON Schema that no regular language expresses here ("regex", idn-*)
  kUnknown,  ///< no format of JSON Schema: an annotation, which constrains nothing
};
FormatSupport format_support(std::string_view format);

/// The texts of a format of JSON Schema 2020-12 or draft 7 (date-time, date, time, duration, email,
/// hostname, ipv4, ipv6, uri, uri-reference, iri, iri-reference, uuid, uri-template, json-pointer,
/// relative-json-pointer). nullopt: see format_support().
std::optional<Regex> format_language(RegexArena& arena, std::string_view format);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_FORMATS_H_
