// The syntax tree of a pattern; private to the regex parser.
#ifndef CHIMERE_CONSTRAINTS_REGEX_SYNTAX_H_
#define CHIMERE_CONSTRAINTS_REGEX_SYNTAX_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "constraints/code_points.h"
#include "constraints/regex.h"

namespace chimere::constraints {

struct PatternNode {
  enum class Kind {
    kSet,
    kConcat,
    kAlternate,
    kRepeat,     ///< of the one child
    kLook,       ///< look-ahead or look-behind for the one child
    kTextStart,  ///< ^
    kTextEnd,    ///< $
    kBoundary,   ///< \b and \B
  };
  Kind kind = Kind::kConcat;
  bool asserts =
      false;  ///< whether anything inside consumes no text but restricts its surroundings
  bool negative = false;  ///< kLook, kBoundary
  bool behind = false;    ///< kLook
  uint32_t min = 0;       ///< kRepeat
  uint32_t max = 0;
  size_t offset = 0;  ///< in the pattern, in characters
  CodePointSet set;
  std::vector<uint32_t> children;
};

struct Pattern {
  std::vector<PatternNode> nodes;
  uint32_t root = 0;
};

/// Patterns of more characters are refused.
inline constexpr size_t kMaxPattern = 65'536;
/// Groups that may stand inside one another.
inline constexpr int kMaxPatternDepth = 200;

/// Reads a pattern of ECMA-262 with the u flag. As in browsers without it, a brace or bracket that
/// begins nothing stands for itself, and so does an escaped character that is no letter or digit.
Result<Pattern> read_pattern(std::string_view pattern);

/// Reads one character class of a GBNF grammar with its brackets.
Result<CodePointSet> read_gbnf_class(std::string_view text);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_REGEX_SYNTAX_H_
