// JSON to values and back.
#ifndef CHIMERE_TEXT_JINJA_JSON_H_
#define CHIMERE_TEXT_JINJA_JSON_H_

#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace chimere::text::jinja {

/// Reads one JSON document in UTF-8; its strings are not trusted. Numbers without fraction and
/// exponent that fit 64 bits are integers. Errors: kInvalidData (damaged text, with the byte's
/// position; nesting above kMaxNesting).
Result<Value> parse_json(std::string_view json);

struct JsonStyle {
  bool lines = false;  ///< each item in a line of its own,
  MarkedText indent;   ///< with this for each level
  bool ascii_only = false;
  bool sort_keys = false;
  MarkedText item_separator = {", ", true};  ///< Python's default; "," with lines
  MarkedText key_separator = {": ", true};
};

/// Python's json.dumps(). Brackets and punctuation are trusted, the strings keep their marks.
MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_JSON_H_
