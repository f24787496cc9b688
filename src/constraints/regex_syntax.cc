#include "constraints/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace chimere::constraints {
namespace {

using Kind = PatternNode::Kind;

constexpr CodeRange kDigits[] = {{'0', '9'}};
constexpr CodeRange kWordCharacters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// WhiteSpace and LineTerminator of ECMA-262.
constexpr CodeRange kSpaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
constexpr CodeRange kLineTerminators[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

bool is_decimal(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(uint32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

std::optional<uint32_t> hex_digit(uint32_t c) {
  if (is_decimal(c)) return c - '0';
  if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
  return std::nullopt;
}

Result<std::vector<uint32_t>> decode_pattern(std::string_view pattern) {
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < pattern.size();) {
    const text::Utf8Char read = text::read_utf8(pattern, at);
    if (read.kind != text::Utf8Char::Kind::kValid) {
      return invalid_argument("a pattern must be valid UTF-8");
    }
    codes.push_back(read.code);
    at += static_cast<size_t>(read.length);
    if (codes.size() > kMaxPattern) {
      return unsupported("a pattern may have at most " + std::to_string(kMaxPattern) +
                         " characters; this one has more from byte " + std::to_string(at) + " on");
    }
  }
  return codes;
}

class PatternReader {
 public:
  explicit PatternReader(std::vector<uint32_t> codes) : codes_(std::move(codes)) {}

  Result<Pattern> read() {
    CHIMERE_TRY(const uint32_t root, alternation(0));
    if (at_ < codes_.size()) return malformed("unmatched )");
    pattern_.root = root;
    return std::move(pattern_);
  }

  Result<CodePointSet> gbnf_class() {
    gbnf_ = true;
    if (!take('[')) return malformed("a character class begins with [");
    CHIMERE_TRY(auto set, character_class());
    if (at_ < codes_.size()) return malformed("text after the character class");
    return set;
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;

  uint32_t peek(size_t ahead = 0) const {
    return at_ + ahead < codes_.size() ? codes_[at_ + ahead] : kEnd;
  }
  bool take(uint32_t code) {
    if (peek() != code) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (peek(i) != static_cast<uint8_t>(text[i])) return false;
    }
    at_ += text.size();
    return true;
  }
  std::string where() const { return " at character " + std::to_string(at_) + " of the pattern"; }
  Error malformed(const std::string& what) const { return invalid_argument(what + where()); }
  Error refused(const std::string& what) const {
    return unsupported(what + where() + " is not supported");
  }

  uint32_t add(PatternNode node) {
    for (const uint32_t child : node.children) {
      node.asserts = node.asserts || pattern_.nodes[child].asserts;
    }
    if (node.kind == Kind::kLook || node.kind == Kind::kBoundary || node.kind == Kind::kTextStart ||
        node.kind == Kind::kTextEnd) {
      node.asserts = true;
    }
    node.offset = at_;
    pattern_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(pattern_.nodes.size() - 1);
  }
  uint32_t add_set(CodePointSet set) {
    PatternNode node;
    node.kind = Kind::kSet;
    node.set = std::move(set);
    return add(std::move(node));
  }
  uint32_t add_kind(Kind kind, bool negative = false) {
    PatternNode node;
    node.kind = kind;
    node.negative = negative;
    return add(std::move(node));
  }

  Result<uint32_t> alternation(int depth) {
    if (depth > kMaxPatternDepth) return refused("nesting of more than 200 groups");
    PatternNode node;
    node.kind = Kind::kAlternate;
    do {
      CHIMERE_TRY(const uint32_t part, sequence(depth));
      node.children.push_back(part);
    } while (take('|'));
    if (node.children.size() == 1) return node.children.front();
    return add(std::move(node));
  }

  Result<uint32_t> sequence(int depth) {
    PatternNode node;
    while (peek() != kEnd && peek() != '|' && peek() != ')') {
      CHIMERE_TRY(const uint32_t part, term(depth));
      node.children.push_back(part);
    }
    if (node.children.size() == 1) return node.children.front();
    return add(std::move(node));
  }

  Result<uint32_t> term(int depth) {
    CHIMERE_TRY(const uint32_t part, atom(depth));
    uint32_t min = 0;
    uint32_t max = 0;
    CHIMERE_TRY(const bool repeated, quantifier(min, max));
    if (!repeated) return part;
    const Kind kind = pattern_.nodes[part].kind;
    if (kind == Kind::kTextStart || kind == Kind::kTextEnd || kind == Kind::kBoundary) {
      return malformed("nothing to repeat");
    }
    uint32_t more = 0;
    CHIMERE_TRY(const bool again, quantifier(more, more));
    if (again) return malformed("nothing to repeat");
    PatternNode node;
    node.kind = Kind::kRepeat;
    node.min = min;
    node.max = max;
    node.children = {part};
    return add(std::move(node));
  }

  /// Reads a quantifier if one follows.
  Result<bool> quantifier(uint32_t& min, uint32_t& max) {
    if (take('*')) {
      min = 0;
      max = RegexArena::kUnbounded;
    } else if (take('+')) {
      min = 1;
      max = RegexArena::kUnbounded;
    } else if (take('?')) {
      min = 0;
      max = 1;
    } else if (peek() == '{') {
      const size_t begin = at_++;
      const auto low = count();
      bool whole = low.has_value();
      min = max = low.value_or(0);
      if (whole && take(',')) max = count().value_or(RegexArena::kUnbounded);
      whole = whole && take('}');
      if (!whole) {  // a brace that stands for itself
        at_ = begin;
        return false;
      }
      if (min > RegexArena::kMaxCount ||
          (max > RegexArena::kMaxCount && max != RegexArena::kUnbounded)) {
        return refused("a count above 1,000,000,000");
      }
      if (min > max) return malformed("the counts of a repeat are out of order");
    } else {
      return false;
    }
    take('?');  // lazy: the same language
    return true;
  }

  std::optional<uint32_t> count() {
    if (!is_decimal(peek())) return std::nullopt;
    uint64_t value = 0;
    for (; is_decimal(peek()); ++at_) {
      value = std::min<uint64_t>(value * 10 + (peek() - '0'), uint64_t{RegexArena::kMaxCount} + 1);
    }
    return static_cast<uint32_t>(value);
  }

  Result<uint32_t> atom(int depth) {
    const uint32_t code = peek();
    switch (code) {
      case '^':
        ++at_;
        return add_kind(Kind::kTextStart);
      case '$':
        ++at_;
        return add_kind(Kind::kTextEnd);
      case '.':
        ++at_;
        return add_set(CodePointSet(kLineTerminators).complement());
      case '(':
        ++at_;
        return group(depth);
      case '[': {
        ++at_;
        CHIMERE_TRY(auto set, character_class());
        return add_set(std::move(set));
      }
      case '\\':
        ++at_;
        return atom_escape();
      case '*':
      case '+':
      case '?':
        return malformed("nothing to repeat");
      case '{': {
        uint32_t min = 0;
        uint32_t max = 0;
        CHIMERE_TRY(const bool repeated, quantifier(min, max));
        if (repeated) return malformed("nothing to repeat");
        break;
      }
      default:
        break;
    }
    ++at_;
    return add_set(CodePointSet::of(code));
  }

  Result<uint32_t> group(int depth) {
    PatternNode look;
    look.kind = Kind::kLook;
    bool is_look = true;
    if (take("?=")) {
    } else if (take("?!")) {
      look.negative = true;
    } else if (take("?<=")) {
      look.behind = true;
    } else if (take("?<!")) {
      look.behind = look.negative = true;
    } else {
      is_look = false;
      if (take("?:")) {
      } else if (take("?<") || take("?P<")) {
        size_t length = 0;
        for (; peek() != '>'; ++at_, ++length) {
          if (peek() == kEnd || (peek() < 0x80 && !is_decimal(peek()) && !is_ascii_letter(peek()) &&
                                 peek() != '_' && peek() != '$')) {
            return malformed("the name of a group must end with >");
          }
        }
        if (length == 0) return malformed("the name of a group is empty");
        ++at_;
      } else if (peek() == '?') {
        return refused("the group (?");
      }
    }
    CHIMERE_TRY(const uint32_t inner, alternation(depth + 1));
    if (!take(')')) return malformed("missing )");
    if (!is_look) return inner;
    look.children = {inner};
    return add(std::move(look));
  }

  /// After a backslash outside a class.
  Result<uint32_t> atom_escape() {
    const uint32_t code = peek();
    if (code == 'b' || code == 'B') {
      ++at_;
      return add_kind(Kind::kBoundary, code == 'B');
    }
    if (code >= '1' && code <= '9') return refused("the back reference");
    if (code == 'k') return refused("the back reference \\k");
    CHIMERE_TRY(auto set, escape());
    return add_set(std::move(set));
  }

  /// After a backslash: a set of characters, of one if it is a single character.
  Result<CodePointSet> escape() {
    const uint32_t code = peek();
    if (code == kEnd) return malformed("a backslash at the end");
    ++at_;
    if (gbnf_) return gbnf_escape(code);
    switch (code) {
      case 'd':
        return CodePointSet(kDigits);
      case 'D':
        return CodePointSet(kDigits).complement();
      case 'w':
        return CodePointSet(kWordCharacters);
      case 'W':
        return CodePointSet(kWordCharacters).complement();
      case 's':
        return CodePointSet(kSpaces);
      case 'S':
        return CodePointSet(kSpaces).complement();
      case 'p':
      case 'P':
        return property(code == 'P');
      case 't':
        return CodePointSet::of('\t');
      case 'n':
        return CodePointSet::of('\n');
      case 'v':
        return CodePointSet::of('\v');
      case 'f':
        return CodePointSet::of('\f');
      case 'r':
        return CodePointSet::of('\r');
      case '0':
        if (is_decimal(peek())) return refused("an octal escape");
        return CodePointSet::of(0);
      case 'c':
        if (!is_ascii_letter(peek())) return malformed("\\c needs a letter");
        return CodePointSet::of(codes_[at_++] & 0x1F);
      case 'x': {
        CHIMERE_TRY(const uint32_t value, hex(2));
        return CodePointSet::of(value);
      }
      case 'u':
        return unicode_escape();
      default:
        if (is_decimal(code) || is_ascii_letter(code)) {
          --at_;
          return malformed("unknown escape \\" + std::string(1, static_cast<char>(code)));
        }
        return CodePointSet::of(code);
    }
  }

  Result<CodePointSet> gbnf_escape(uint32_t code) {
    int digits = 0;
    switch (code) {
      case 't':
        return CodePointSet::of('\t');
      case 'n':
        return CodePointSet::of('\n');
      case 'r':
        return CodePointSet::of('\r');
      case 'x':
        digits = 2;
        break;
      case 'u':
        digits = 4;
        break;
      case 'U':
        digits = 8;
        break;
      default:
        if (is_decimal(code) || is_ascii_letter(code)) {
          return malformed("unknown escape in a character class");
        }
        return CodePointSet::of(code);
    }
    CHIMERE_TRY(const uint32_t value, hex(digits));
    return CodePointSet::of(value);
  }

  Result<uint32_t> hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const auto digit = hex_digit(peek());
      if (!digit) return malformed("an escape needs " + std::to_string(digits) + " hex digits");
      value = value << 4 | *digit;
      ++at_;
    }
    return value;
  }

  Result<CodePointSet> unicode_escape() {
    if (take('{')) {
      uint32_t value = 0;
      size_t length = 0;
      for (; peek() != '}'; ++at_, ++length) {
        const auto digit = hex_digit(peek());
        if (!digit) return malformed("\\u{ needs hex digits and }");
        value = std::min(value << 4 | *digit, kLastCodePoint + 1);
      }
      ++at_;
      if (length == 0 || value > kLastCodePoint) return malformed("no such character");
      return CodePointSet::of(value);
    }
    CHIMERE_TRY(uint32_t value, hex(4));
    if (value >= 0xD800 && value < 0xDC00 && peek() == '\\' && peek(1) == 'u') {
      const size_t begin = at_;
      at_ += 2;
      const auto low = hex(4);
      if (low.ok() && *low >= 0xDC00 && *low < 0xE000) {
        value = 0x10000 + ((value - 0xD800) << 10) + (*low - 0xDC00);
      } else {
        at_ = begin;
      }
    }
    return CodePointSet::of(value);  // a lone surrogate is in no text
  }

  Result<CodePointSet> property(bool negative) {
    if (!take('{')) return malformed("\\p needs a property in braces");
    std::string name;
    for (; peek() != '}'; ++at_) {
      if (peek() > 0x7F) return malformed("\\p needs a property in braces");
      name += static_cast<char>(peek());
    }
    ++at_;
    const auto set = unicode_property(name);
    if (!set) return refused("the Unicode property \"" + name + "\"");
    return negative ? set->complement() : *set;
  }

  /// One member of a class; single: whether it is one character, which may begin a range.
  Result<CodePointSet> class_atom(bool& single, uint32_t& code) {
    code = peek();
    single = true;
    if (code == kEnd) return malformed("missing ]");
    ++at_;
    if (code != '\\') return CodePointSet::of(code);
    if (!gbnf_) {
      if (take('b')) {
        code = '\b';
        return CodePointSet::of(code);
      }
      if (peek() >= '1' && peek() <= '9') return refused("an octal escape");
    }
    const uint32_t letter = peek();
    const size_t begin = at_;
    CHIMERE_TRY(auto set, escape());
    single =
        gbnf_ ||
        std::string_view("dDwWsSpP").find(static_cast<char>(letter)) == std::string_view::npos ||
        letter > 0x7F;
    if (single) code = set.empty() ? surrogate(begin) : set.ranges().front().first;
    return set;
  }

  /// The value of an escape of a lone surrogate, which no set holds: it can still bound a range.
  uint32_t surrogate(size_t begin) const {
    uint32_t value = 0;
    for (size_t i = begin + 1; i < at_; ++i) {
      if (const auto digit = hex_digit(codes_[i])) value = value << 4 | *digit;
    }
    return value;
  }

  /// After the opening bracket.
  Result<CodePointSet> character_class() {
    const bool negative = take('^');
    std::vector<CodeRange> ranges;
    const auto add_all = [&](const CodePointSet& set) {
      ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    };
    while (!take(']')) {
      bool single = false;
      uint32_t first = 0;
      CHIMERE_TRY(const auto set, class_atom(single, first));
      if (peek() != '-' || peek(1) == ']' || peek(1) == kEnd) {
        add_all(set);
        continue;
      }
      const size_t dash = at_++;
      bool single_end = false;
      uint32_t last = 0;
      CHIMERE_TRY(const auto end_set, class_atom(single_end, last));
      if (!single || !single_end) {  // [\w-.]: the dash stands for itself
        add_all(set);
        add_all(CodePointSet::of('-'));
        add_all(end_set);
        continue;
      }
      if (first > last) {
        at_ = dash;
        return malformed("a range of characters is out of order");
      }
      ranges.push_back({first, last});
    }
    CodePointSet set(ranges);
    return negative ? set.complement() : set;
  }

  std::vector<uint32_t> codes_;
  size_t at_ = 0;
  bool gbnf_ = false;
  Pattern pattern_;
};

}  // namespace

Result<Pattern> read_pattern(std::string_view pattern) {
  CHIMERE_TRY(auto codes, decode_pattern(pattern));
  return PatternReader(std::move(codes)).read();
}

Result<CodePointSet> read_gbnf_class(std::string_view text) {
  CHIMERE_TRY(auto codes, decode_pattern(text));
  return PatternReader(std::move(codes)).gbnf_class();
}

}  // namespace chimere::constraints
