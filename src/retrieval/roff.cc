#include "retrieval/roff.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "text/utf8.h"

namespace chimere::retrieval {
namespace {

struct SpecialCharacter {
  std::string_view name;
  std::string_view text;
};

/// groff_char(7): those that manual pages use.
constexpr SpecialCharacter kSpecials[] = {
    {"em", "—"}, {"en", "–"}, {"hy", "-"},  {"bu", "•"},  {"co", "©"}, {"rg", "®"},  {"tm", "™"},
    {"lq", "“"}, {"rq", "”"}, {"oq", "‘"},  {"cq", "’"},  {"aq", "'"}, {"dq", "\""}, {"ga", "`"},
    {"ha", "^"}, {"ti", "~"}, {"rs", "\\"}, {"sl", "/"},  {"->", "→"}, {"<-", "←"},  {"mu", "×"},
    {">=", "≥"}, {"<=", "≤"}, {"!=", "≠"},  {"==", "≡"},  {"+-", "±"}, {"mi", "−"},  {"pl", "+"},
    {"de", "°"}, {"sc", "§"}, {"dg", "†"},  {"dd", "‡"},  {"at", "@"}, {"sh", "#"},  {"Do", "$"},
    {"ul", "_"}, {"ba", "|"}, {"or", "|"},  {"bv", "|"},  {"br", "|"}, {"lB", "["},  {"rB", "]"},
    {"lC", "{"}, {"rC", "}"}, {"la", "⟨"},  {"ra", "⟩"},  {"Fo", "«"}, {"Fc", "»"},  {"Bq", "„"},
    {"ci", "○"}, {"sq", "□"}, {"fm", "'"},  {"sd", "\""}, {"*a", "α"}, {"*b", "β"},  {"*g", "γ"},
    {"*d", "δ"}, {"*e", "ε"}, {"*h", "θ"},  {"*l", "λ"},  {"*m", "μ"}, {"*p", "π"},  {"*s", "σ"},
    {"*W", "Ω"}, {"*D", "Δ"}, {"mc", "µ"},  {"if", "∞"},  {"eu", "€"}, {"Eu", "€"},  {"12", "½"},
    {"14", "¼"}, {"34", "¾"}, {"S1", "¹"},  {"S2", "²"},  {"S3", "³"}, {":a", "ä"},  {":o", "ö"},
    {":u", "ü"}, {":A", "Ä"}, {":O", "Ö"},  {":U", "Ü"},  {"ss", "ß"}, {"'e", "é"},  {"'a", "á"},
    {"'i", "í"}, {"'o", "ó"}, {"'u", "ú"},  {"`e", "è"},  {"`a", "à"}, {"^e", "ê"},  {"^o", "ô"},
    {"~n", "ñ"}, {",c", "ç"}, {"oa", "å"},  {"oA", "Å"},  {"/o", "ø"}, {"lh", "☜"},  {"rh", "☞"},
    {"OK", "✓"}, {"no", "¬"}, {"ap", "∼"},  {"~~", "≈"},  {"fo", "‹"}, {"fc", "›"},  {"tp", "þ"},
    {"lf", "⌊"}, {"rf", "⌋"}, {"ua", "↑"},  {"da", "↓"},  {"<>", "↔"},
};

void add_special(std::string& out, std::string_view name) {
  const auto* const known = std::ranges::find(kSpecials, name, &SpecialCharacter::name);
  if (known != std::end(kSpecials)) {
    out += known->text;
    return;
  }
  if (name.size() >= 5 && name.size() <= 7 && name.front() == 'u') {
    uint32_t code = 0;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), code, 16);
    const bool valid = error == std::errc() && end == name.data() + name.size() && code >= 0xa0 &&
                       code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    if (valid) text::append_utf8(out, code);
    if (error == std::errc() && code >= 0x20 && code < 0x7f) out += static_cast<char>(code);
  }
}

/// The name after an escape such as \f, \*, \n at `at`: one character, (xx or [name]. Moves `at`
/// behind it.
std::string_view name_at(std::string_view text, size_t& at) {
  if (at >= text.size()) return {};
  if (text[at] == '(') {
    const std::string_view name = text.substr(at + 1, 2);
    at = std::min(text.size(), at + 3);
    return name;
  }
  if (text[at] == '[') {
    const size_t end = text.find(']', at);
    if (end == std::string_view::npos) {
      at = text.size();
      return {};
    }
    const std::string_view name = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return name;
  }
  return text.substr(at++, 1);
}

/// Moves `at` behind an argument in delimiters: 'text'.
std::string_view delimited_at(std::string_view text, size_t& at) {
  if (at >= text.size()) return {};
  const size_t end = text.find(text[at], at + 1);
  if (end == std::string_view::npos) {
    at = text.size();
    return {};
  }
  const std::string_view inside = text.substr(at + 1, end - at - 1);
  at = end + 1;
  return inside;
}

/// Moves `at` behind the argument of \s: a sign, then digits, or a name or delimited number.
void skip_size(std::string_view text, size_t& at) {
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  if (at >= text.size()) return;
  if (text[at] == '(' || text[at] == '[') {
    (void)name_at(text, at);
  } else if (text[at] == '\'') {
    (void)delimited_at(text, at);
  } else if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
    const bool two = text[at] >= '1' && text[at] <= '3' && at + 1 < text.size() &&
                     std::isdigit(static_cast<unsigned char>(text[at + 1])) != 0;
    at += two ? 2 : 1;
  }
}

/// Handles the escape whose letter is at `at`, behind the backslash, and moves `at` behind it.
/// Returns false at a comment, which ends the line.
bool escape(std::string_view text, size_t& at, std::string& out) {
  const char c = text[at++];
  switch (c) {
    case '"':
    case '#':
      return false;
    case '-':
      out += '-';
      break;
    case 'e':
    case 'E':
    case '\\':
      out += '\\';
      break;
    case ' ':
    case '~':
    case '0':
      out += ' ';
      break;
    case 't':
      out += '\t';
      break;
    case '\'':
      out += '\'';
      break;
    case '`':
      out += '`';
      break;
    case '.':
      out += '.';
      break;
    case '(':
      add_special(out, text.substr(at, 2));
      at = std::min(text.size(), at + 2);
      break;
    case '[':
      add_special(out, name_at(text, --at));
      break;
    case 'f':
    case 'F':
    case 'm':
    case 'M':
    case 'k':
    case 'g':
    case 'Y':
    case '$':
    case 'V':
      (void)name_at(text, at);
      break;
    case '*':
    case 'n':
      if (c == 'n' && at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      (void)name_at(text, at);
      break;
    case 's':
      skip_size(text, at);
      break;
    case 'C':
      add_special(out, delimited_at(text, at));
      break;
    case 'N':
    case 'h':
    case 'v':
    case 'w':
    case 'l':
    case 'L':
    case 'D':
    case 'b':
    case 'H':
    case 'S':
    case 'x':
    case 'X':
    case 'Z':
    case 'A':
    case 'B':
    case 'R':
      (void)delimited_at(text, at);
      break;
    case 'o':
      out += without_escapes(delimited_at(text, at).substr(0, 1));
      break;
    default:  // \& \% \| \^ \/ \, \c \d \u \p \r \z \{ \} and unknown ones print nothing
      if (static_cast<unsigned char>(c) >= 0x80) out += c;
      break;
  }
  return true;
}

/// The text up to a comment (\").
std::string_view without_comment(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') continue;
    if (text[i + 1] == '"' || text[i + 1] == '#') return text.substr(0, i);
    ++i;
  }
  return text;
}

/// Splits a macro's arguments.
std::vector<RoffWord> words_of(std::string_view text) {
  text = without_comment(text);
  std::vector<RoffWord> words;
  size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
    if (at >= text.size()) break;
    std::string raw;
    const bool quoted = text[at] == '"';
    if (quoted) ++at;
    while (at < text.size()) {
      const char c = text[at];
      if (c == '\\' && at + 1 < text.size()) {
        raw += c;
        raw += text[at + 1];
        at += 2;
        continue;
      }
      if (quoted && c == '"') {
        if (at + 1 < text.size() && text[at + 1] == '"') {
          raw += '"';
          at += 2;
          continue;
        }
        ++at;
        break;
      }
      if (!quoted && (c == ' ' || c == '\t')) break;
      raw += c;
      ++at;
    }
    words.push_back({without_escapes(raw), quoted});
  }
  return words;
}

/// The name of a request at the beginning of `rest`, which is moved behind it.
std::string_view take_name(std::string_view& rest) {
  while (rest.starts_with(' ') || rest.starts_with('\t')) rest.remove_prefix(1);
  size_t end = 0;
  while (end < rest.size() && rest[end] != ' ' && rest[end] != '\t' && rest[end] != '\\') ++end;
  const std::string_view name = rest.substr(0, end);
  rest.remove_prefix(end);
  return name;
}

bool is_control(std::string_view line) { return line.starts_with('.') || line.starts_with('\''); }

/// How many blocks a line opens (\{) and closes (\}).
std::pair<int, int> braces(std::string_view line) {
  int opens = 0;
  int closes = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] != '\\') continue;
    opens += line[i + 1] == '{' ? 1 : 0;
    closes += line[i + 1] == '}' ? 1 : 0;
    ++i;
  }
  return {opens, closes};
}

/// The condition at the beginning of `rest`, which is moved behind it.
bool evaluate(std::string_view& rest) {
  while (rest.starts_with(' ') || rest.starts_with('\t')) rest.remove_prefix(1);
  const bool negated = rest.starts_with('!');
  if (negated) rest.remove_prefix(1);
  bool value = false;
  if (!rest.empty() && (rest[0] == '\'' || rest[0] == '"')) {  // 'a'b'
    const char mark = rest[0];
    const size_t middle = rest.find(mark, 1);
    const size_t end = middle == std::string_view::npos ? middle : rest.find(mark, middle + 1);
    if (end == std::string_view::npos) {
      rest = {};
    } else {
      value = rest.substr(1, middle - 1) == rest.substr(middle + 1, end - middle - 1);
      rest.remove_prefix(end + 1);
    }
  } else {
    size_t end = 0;
    while (end < rest.size() && rest[end] != ' ' && rest[end] != '\t' &&
           !rest.substr(end).starts_with("\\{"))
      ++end;
    const std::string_view condition = rest.substr(0, end);
    rest.remove_prefix(end);
    value = condition == "n" || condition == "o" || condition == "1";
    if (condition == "d" || condition == "r" || condition == "c") (void)take_name(rest);
  }
  return value != negated;
}

}  // namespace

std::string without_escapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const size_t slash = text.find('\\', at);
    out += text.substr(at, slash == std::string_view::npos ? slash : slash - at);
    if (slash == std::string_view::npos || slash + 1 >= text.size()) break;
    at = slash + 1;
    if (!escape(text, at, out)) break;
  }
  return out;
}

RoffReader::RoffReader(std::string_view source)
    : lines_(source), budget_(static_cast<int64_t>(source.size()) * 7) {}

bool RoffReader::raw_line(std::string& out) {
  if (!pending_.empty()) {
    out = std::move(pending_.back());
    pending_.pop_back();
    return true;
  }
  if (!lines_.next()) return false;
  out = lines_.line();
  return true;
}

bool RoffReader::next() {
  std::string raw;
  while (raw_line(raw)) {
    if (is_control(raw)) {
      if (control(raw)) return true;
      continue;
    }
    line_ = {};
    line_.number = lines_.number();
    line_.text = without_escapes(expanded(raw, 0));
    return true;
  }
  return false;
}

/// Carries out a request of roff; true: the line is a macro for the reader's user.
bool RoffReader::control(std::string_view line) {
  std::string_view rest = line.substr(1);
  const std::string name(take_name(rest));
  if (name.empty() || name == "\\\"") return false;
  if (name == "if" || name == "ie") {
    condition(rest, name == "ie");
  } else if (name == "el") {
    otherwise(rest);
  } else if (name == "de" || name == "am" || name == "de1" || name == "am1" || name == "ig") {
    const std::string_view defined = name == "ig" ? std::string_view() : take_name(rest);
    const std::string_view ending = take_name(rest);
    if (!defined.empty() && macros_.size() < 1000) macros_[std::string(defined)] = true;
    skip_definition(ending.empty() ? "." : ending);
  } else if (name == "ds" || name == "ds1" || name == "as") {
    define_string(rest, name == "as");
  } else {
    line_ = {};
    line_.number = lines_.number();
    line_.name = name;
    const std::string arguments = expanded(rest, 0);
    line_.words = words_of(arguments);
    line_.text = without_escapes(trimmed(without_comment(arguments)));
    return true;
  }
  return false;
}

void RoffReader::condition(std::string_view rest, bool has_else) {
  const std::string arguments = expanded(rest, 0);
  std::string_view behind = arguments;
  const bool value = evaluate(behind);
  constexpr size_t kMostNested = 100;
  if (has_else && else_.size() < kMostNested) else_.push_back(!value);
  branch(behind, value);
}

void RoffReader::otherwise(std::string_view rest) {
  const bool taken = !else_.empty() && else_.back();
  if (!else_.empty()) else_.pop_back();
  branch(std::string(rest), taken);
}

void RoffReader::branch(std::string_view rest, bool taken) {
  rest = trimmed(rest);
  if (!taken) {
    skip_block(rest);
    return;
  }
  // The braces of a branch that is taken print nothing.
  if (rest.starts_with("\\{")) rest = trimmed(rest.substr(2));
  if (rest.starts_with("\\")) {  // "\{\" continues on the next line
    if (rest.size() == 1) return;
  }
  if (!rest.empty()) pending_.emplace_back(rest);
}

void RoffReader::skip_block(std::string_view rest) {
  auto [depth, closed] = braces(rest);
  depth -= closed;
  std::string raw;
  while (depth > 0 && raw_line(raw)) {
    const auto [opens, closes] = braces(raw);
    depth += opens - closes;
  }
}

void RoffReader::skip_definition(std::string_view ending) {
  const std::string end = "." + std::string(ending);
  std::string raw;
  while (raw_line(raw)) {
    std::string_view line = raw;
    if (line.starts_with('.')) {
      std::string_view behind = line.substr(1);
      while (behind.starts_with(' ')) behind.remove_prefix(1);
      if ("." + std::string(trimmed(behind)) == end) return;
    }
  }
}

void RoffReader::define_string(std::string_view rest, bool append) {
  const std::string name(take_name(rest));
  if (name.empty() || (strings_.size() >= 1000 && !strings_.contains(name))) return;
  while (rest.starts_with(' ') || rest.starts_with('\t')) rest.remove_prefix(1);
  if (rest.starts_with('"')) rest.remove_prefix(1);
  rest = without_comment(rest);
  std::string& value = strings_[name];
  constexpr size_t kMostString = 1000;
  if (!append) value.clear();
  if (value.size() + rest.size() <= kMostString) value += rest;
}

std::string RoffReader::expanded(std::string_view text, int depth) {
  constexpr int kMostDepth = 8;
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t slash = text.find('\\', at);
    out += text.substr(at, slash == std::string_view::npos ? slash : slash - at);
    if (slash == std::string_view::npos) break;
    if (slash + 1 < text.size() && text[slash + 1] == '*') {
      at = slash + 2;
      const std::string_view name = name_at(text, at);
      const auto known = strings_.find(name.substr(0, name.find(' ')));
      if (known == strings_.end() || depth >= kMostDepth || budget_ <= 0) continue;
      budget_ -= static_cast<int64_t>(known->second.size()) + 16;
      out += expanded(std::string(known->second), depth + 1);
    } else {
      out += text.substr(slash, 2);
      at = slash + 2;
    }
  }
  return out;
}

}  // namespace chimere::retrieval
