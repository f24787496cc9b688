// The white space of a JSON document.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_LAYOUT_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_LAYOUT_H_

#include <cstdint>
#include <optional>

#include "constraints/json_schema.h"

namespace chimere::constraints::json_schema {

/// The white space of a document so far.
struct Layout {
  uint8_t style = 0;  ///< of LayoutRules
  uint8_t space = 0;  ///< read since the last other byte: 0 none, 1 one space, 2 + n a line break
                      ///< and n blanks
  bool operator==(const Layout&) const = default;
};

/// Where white space may be written.
enum class Gap : uint8_t { kAfterOpening, kAfterComma, kAfterColon, kBeforeClosing };

/// Which white space may follow. In canonical documents the first gaps choose between the styles of
/// json.dumps(), `{"a": [1, 2]}`, `{"a":[1,2]}` and lines with an indentation of 1 to 8 spaces or a
/// tab for each level; all other gaps follow. Brackets with nothing between them hold no white
/// space.
class LayoutRules {
 public:
  LayoutRules(const JsonWhitespace& allowed, bool canonical)
      : allowed_(allowed), canonical_(canonical) {}

  Layout start() const;
  /// The layout after one more byte of white space; nullopt: it is none or not allowed. `depth`:
  /// the number of brackets that are open.
  std::optional<Layout> blank(Layout at, Gap gap, uint32_t depth, uint8_t byte) const;
  /// The layout if the gap ends here; nullopt: more white space must follow.
  std::optional<Layout> end(Layout at, Gap gap, uint32_t depth) const;
  /// Whether a bracket may close behind its opening one.
  bool may_be_empty(Layout at) const { return !canonical_ || at.space == 0; }

 private:
  std::optional<Layout> free_blank(Layout at, Gap gap, uint8_t byte) const;
  std::optional<Layout> line_blank(Layout at, uint32_t level, uint8_t byte) const;

  JsonWhitespace allowed_;
  bool canonical_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_LAYOUT_H_
