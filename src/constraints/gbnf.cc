#include "constraints/gbnf.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace chimere::constraints {
namespace {

constexpr int32_t kMaxRepetitions = 1'000'000'000;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads the rules one after the other. Groups are kept on a stack, not in calls.
class GbnfParser {
 public:
  GbnfParser(std::string_view text, const FindToken& find_token)
      : text_(text), find_token_(find_token) {}

  Result<Grammar> parse();

 private:
  /// A group that is open, or the rule itself.
  struct Group {
    std::vector<Grammar::Id> alternatives;
    std::vector<Grammar::Id> parts;
    size_t opened_at = 0;
  };

  Error error_at(size_t at, const std::string& what) const;
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void skip_space(bool lines);
  std::string_view name();
  int32_t rule(std::string_view name, size_t at);
  size_t line_of(size_t at);
  Status rule_definition();
  Status part(std::vector<Group>& groups, bool& done);
  Result<Grammar::Id> literal();
  Result<Grammar::Id> character_class();
  Result<Grammar::Id> token();
  Result<char32_t> character();
  Status repetition(Group& group);
  Result<int32_t> count();
  Grammar::Id close(Group& group);

  std::string_view text_;
  const FindToken& find_token_;
  size_t at_ = 0;
  Grammar grammar_;
  std::unordered_map<std::string_view, int32_t> rules_;
  std::vector<size_t> first_use_;  ///< by rule
  size_t line_ = 1;                ///< of the byte `counted_`
  size_t counted_ = 0;
};

Error GbnfParser::error_at(size_t at, const std::string& what) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at && i < text_.size(); ++i) {
    ++column;
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  return invalid_argument("Grammar, line " + std::to_string(line) + ", column " +
                          std::to_string(column) + ": " + what + ".");
}

/// Skips blanks and comments; with `lines` also ends of lines.
void GbnfParser::skip_space(bool lines) {
  while (!at_end()) {
    const char c = peek();
    if (c == '#') {
      while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
    } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
      ++at_;
    } else {
      return;
    }
  }
}

std::string_view GbnfParser::name() {
  const size_t begin = at_;
  while (!at_end() && is_name_character(peek())) ++at_;
  return text_.substr(begin, at_ - begin);
}

int32_t GbnfParser::rule(std::string_view name, size_t at) {
  const auto found = rules_.find(name);
  if (found != rules_.end()) return found->second;
  const int32_t made = grammar_.add_rule(std::string(name));
  rules_.emplace(name, made);
  first_use_.push_back(at);
  return made;
}

/// The line of a byte; bytes are asked for in their order.
size_t GbnfParser::line_of(size_t at) {
  for (; counted_ < at; ++counted_) line_ += text_[counted_] == '\n' ? 1 : 0;
  return line_;
}

Result<char32_t> GbnfParser::character() {
  const size_t begin = at_;
  if (peek() != '\\') {
    const text::Utf8Char read = text::read_utf8(text_, at_);
    if (read.kind != text::Utf8Char::Kind::kValid) return error_at(begin, "this is not UTF-8");
    at_ += static_cast<size_t>(read.length);
    return char32_t{read.code};
  }
  ++at_;
  if (at_end()) return error_at(begin, "an escape is incomplete");
  const char kind = text_[at_++];
  int digits = 0;
  switch (kind) {
    case 'n':
      return U'\n';
    case 'r':
      return U'\r';
    case 't':
      return U'\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
    case '/':
      return static_cast<char32_t>(kind);
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
      return error_at(begin, std::string("the escape \\") + kind + " is unknown");
  }
  char32_t code = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = at_end() ? -1 : hex_digit(peek());
    if (digit < 0) {
      return error_at(begin, "an escape needs " + std::to_string(digits) + " hexadecimal digits");
    }
    code = code << 4 | static_cast<char32_t>(digit);
    ++at_;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return error_at(begin, "the escape names no character");
  }
  return code;
}

Result<Grammar::Id> GbnfParser::literal() {
  const size_t begin = at_++;
  std::string value;
  while (peek() != '"') {
    if (at_end()) return error_at(begin, "the literal is not closed");
    CHIMERE_TRY(const char32_t code, character());
    text::append_utf8(value, code);
  }
  ++at_;
  return grammar_.literal(value);
}

Result<Grammar::Id> GbnfParser::character_class() {
  const size_t begin = at_++;
  const bool negated = peek() == '^';
  if (negated) ++at_;
  std::vector<Grammar::Range> ranges;
  while (peek() != ']') {
    if (at_end()) return error_at(begin, "the class of characters is not closed");
    CHIMERE_TRY(const char32_t first, character());
    char32_t last = first;
    if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
      const size_t at = at_++;
      CHIMERE_TRY(last, character());
      if (last < first) return error_at(at, "the range of characters is empty");
    }
    ranges.push_back({first, last});
  }
  ++at_;
  return grammar_.characters(std::move(ranges), negated);
}

Result<Grammar::Id> GbnfParser::token() {
  const size_t begin = at_;
  const size_t end = text_.find('>', at_);
  if (end == std::string_view::npos) return error_at(begin, "the token is not closed");
  const std::string_view name = text_.substr(begin, end + 1 - begin);
  at_ = end + 1;
  if (name.size() > 4 && name[1] == '[' && name[name.size() - 2] == ']') {
    int32_t id = 0;
    for (const char c : name.substr(2, name.size() - 4)) {
      if (c < '0' || c > '9' || id > kMaxRepetitions / 10) {
        return error_at(begin, "the token's number is malformed");
      }
      id = id * 10 + (c - '0');
    }
    return grammar_.token(id);
  }
  const int32_t id = find_token_ ? find_token_(name) : -1;
  if (id < 0) {
    return error_at(begin, "the vocabulary has no control token " + std::string(name));
  }
  return grammar_.token(id);
}

Result<int32_t> GbnfParser::count() {
  const size_t begin = at_;
  int32_t value = 0;
  while (peek() >= '0' && peek() <= '9') {
    if (value > kMaxRepetitions / 10) return error_at(begin, "the number is too large");
    value = value * 10 + (text_[at_++] - '0');
  }
  if (at_ == begin) return error_at(begin, "a number is missing");
  return value;
}

Status GbnfParser::repetition(Group& group) {
  const size_t begin = at_;
  int32_t min = 0;
  int32_t max = Grammar::kUnbounded;
  switch (text_[at_++]) {
    case '*':
      break;
    case '+':
      min = 1;
      break;
    case '?':
      max = 1;
      break;
    default: {
      skip_space(false);
      CHIMERE_TRY(min, count());
      max = min;
      skip_space(false);
      if (peek() == ',') {
        ++at_;
        skip_space(false);
        max = Grammar::kUnbounded;
        if (peek() != '}') {
          CHIMERE_TRY(max, count());
        }
        skip_space(false);
      }
      if (peek() != '}') return error_at(begin, "the repetition is not closed");
      ++at_;
      if (max != Grammar::kUnbounded && max < min) {
        return error_at(begin, "the repetition's bounds contradict each other");
      }
    }
  }
  if (group.parts.empty()) return error_at(begin, "there is nothing to repeat");
  group.parts.back() = grammar_.repeat(group.parts.back(), min, max);
  return {};
}

Grammar::Id GbnfParser::close(Group& group) {
  group.alternatives.push_back(group.parts.size() == 1 ? group.parts[0]
                                                       : grammar_.sequence(std::move(group.parts)));
  return group.alternatives.size() == 1 ? group.alternatives[0]
                                        : grammar_.choice(std::move(group.alternatives));
}

/// Reads one part of a rule. `done`: the rule has ended.
Status GbnfParser::part(std::vector<Group>& groups, bool& done) {
  skip_space(groups.size() > 1);
  const size_t begin = at_;
  const char c = peek();
  if (at_end() || c == '\n' || c == '\r') {
    // A line that begins with | continues the rule.
    skip_space(true);
    if (peek() == '|' && !at_end()) return {};
    if (groups.size() > 1) return error_at(groups.back().opened_at, "the group is not closed");
    done = true;
    return {};
  }
  Group& group = groups.back();
  const auto add = [&](Result<Grammar::Id> made) -> Status {
    CHIMERE_TRY(const Grammar::Id id, std::move(made));
    group.parts.push_back(id);
    return {};
  };
  switch (c) {
    case '"':
      return add(literal());
    case '[':
      return add(character_class());
    case '<':
      return add(token());
    case '.':
      ++at_;
      return add(grammar_.characters({}, true));
    case '(':
      ++at_;
      groups.emplace_back().opened_at = begin;
      return {};
    case ')': {
      if (groups.size() == 1) return error_at(begin, "no group is open here");
      ++at_;
      const Grammar::Id id = close(group);
      groups.pop_back();
      groups.back().parts.push_back(id);
      return {};
    }
    case '|':
      ++at_;
      skip_space(true);
      group.alternatives.push_back(group.parts.size() == 1
                                       ? group.parts[0]
                                       : grammar_.sequence(std::exchange(group.parts, {})));
      group.parts.clear();
      return {};
    case '*':
    case '+':
    case '?':
    case '{':
      return repetition(group);
    case '!':
      return Error{Error::Code::kUnsupported,
                   error_at(begin, "negated tokens are not supported").message};
    default:
      break;
  }
  const std::string_view reference = name();
  if (reference.empty()) return error_at(begin, "this is no part of a rule");
  return add(grammar_.reference(rule(reference, begin)));
}

Status GbnfParser::rule_definition() {
  const size_t begin = at_;
  const std::string_view defined = name();
  if (defined.empty()) return error_at(begin, "the name of a rule is missing");
  skip_space(false);
  if (text_.substr(at_, 3) != "::=") {
    return error_at(at_, "::= is missing after the name of a rule");
  }
  at_ += 3;
  skip_space(true);
  const int32_t index = rule(defined, begin);
  if (grammar_.rules()[static_cast<size_t>(index)].body >= 0) {
    return error_at(begin, "the rule " + std::string(defined) + " is defined twice");
  }
  std::vector<Group> groups(1);
  for (bool done = false; !done;) CHIMERE_CHECK_OK(part(groups, done));
  grammar_.define(index, close(groups[0]), line_of(begin));
  return {};
}

Result<Grammar> GbnfParser::parse() {
  skip_space(true);
  while (!at_end()) {
    CHIMERE_CHECK_OK(rule_definition());
    skip_space(true);
  }
  for (size_t i = 0; i < grammar_.rules().size(); ++i) {
    const Grammar::Rule& used = grammar_.rules()[i];
    if (used.body < 0) return error_at(first_use_[i], "the rule " + used.name + " is not defined");
  }
  const int32_t root = grammar_.find_rule("root");
  if (root < 0) return invalid_argument("The grammar has no rule named root.");
  grammar_.set_root(grammar_.reference(root));
  return std::move(grammar_);
}

}  // namespace

Result<Grammar> parse_gbnf(std::string_view text, const FindToken& find_token) {
  return GbnfParser(text, find_token).parse();
}

}  // namespace chimere::constraints
