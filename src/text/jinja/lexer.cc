#include "text/jinja/lexer.h"

#include <charconv>
#include <cstdint>

#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

/// Line ends become "\n", and one at the very end goes.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)), s_(source_) {}
  std::vector<Token> run();

 private:
  [[noreturn]] void error(const std::string& what) const {
    fail("Line " + std::to_string(line_) + ": " + what);
  }
  bool at(std::string_view word) const { return s_.substr(at_, word.size()) == word; }
  void advance(size_t n);
  void push(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  void skip_space();
  void read_text();
  void strip_text_before_tag(bool is_output);
  void read_comment();
  bool read_raw_block();
  void end_tag(bool trim, bool trim_newline);
  void read_tag(bool is_output);
  void read_token();
  void read_string();
  void read_number();

  std::string source_;
  std::string_view s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  ///< what was read last ended with a line end (or nothing was read)
  std::string open_brackets_;
  std::vector<Token> tokens_;
  std::string text_;  ///< collected for the next text token
};

void Lexer::advance(size_t n) {
  for (size_t i = 0; i < n; ++i) line_ += s_[at_ + i] == '\n' ? 1 : 0;
  at_ += n;
  if (n > 0) line_starts_ = s_[at_ - 1] == '\n';
}

void Lexer::skip_space() {
  while (at_ < s_.size()) {
    const Utf8Char c = read_utf8(s_, at_);
    if (c.kind != Utf8Char::Kind::kValid || !is_space(c.code)) return;
    advance(c.length);
  }
}

std::vector<Token> Lexer::run() {
  while (true) {
    read_text();
    const size_t tag = at_ + text_.size();
    if (tag == s_.size()) break;
    const bool is_output = s_[tag + 1] == '{';
    strip_text_before_tag(is_output);
    if (!text_.empty()) push(Token::Kind::kText, std::exchange(text_, {}));
    if (at("{#")) {
      read_comment();
    } else if (is_output || !read_raw_block()) {
      read_tag(is_output);
    }
  }
  if (!text_.empty()) push(Token::Kind::kText, std::move(text_));
  push(Token::Kind::kEnd, "");
  return std::move(tokens_);
}

void Lexer::read_text() {
  size_t end = at_;
  while (true) {
    end = s_.find('{', end);
    if (end == std::string_view::npos) {
      end = s_.size();
      break;
    }
    const char next = end + 1 < s_.size() ? s_[end + 1] : '\0';
    if (next == '{' || next == '%' || next == '#') break;
    ++end;
  }
  text_ = std::string(s_.substr(at_, end - at_));
}

void Lexer::strip_text_before_tag(bool is_output) {
  const bool line_started = line_starts_;
  const size_t text_size = text_.size();
  advance(text_size);
  const char sign = at_ + 2 < s_.size() ? s_[at_ + 2] : '\0';
  if (sign == '-') {
    text_ = strip(MarkedText(text_, true), "", false, true).bytes();
  } else if (sign != '+' && !is_output) {
    const size_t newline = text_.rfind('\n');
    const size_t line = newline == std::string::npos ? 0 : newline + 1;
    if ((line > 0 || line_started) &&
        strip(MarkedText(std::string_view(text_).substr(line), true), "", true, false).empty()) {
      text_.resize(line);
    }
  }
}

/// After a tag: "-" removes all white space; a block or comment removes one line end unless "+".
void Lexer::end_tag(bool trim, bool trim_newline) {
  if (trim) {
    skip_space();
  } else if (trim_newline && at("\n")) {
    advance(1);
  }
}

void Lexer::read_comment() {
  const size_t end = s_.find("#}", at_ + 2);
  if (end == std::string_view::npos) error("A comment has no end; close it with #}.");
  const size_t signed_begin = s_[at_ + 2] == '-' || s_[at_ + 2] == '+' ? at_ + 3 : at_ + 2;
  const char sign = end > signed_begin ? s_[end - 1] : '\0';
  advance(end + 2 - at_);
  end_tag(sign == '-', sign != '+');
}

bool Lexer::read_raw_block() {
  // {%[-+]? raw [-]?%}
  const auto match_tag = [&](size_t from, std::string_view name, char* sign) -> size_t {
    size_t i = from + 2;
    const auto spaces = [&] {
      while (i < s_.size() && (s_[i] == ' ' || s_[i] == '\t' || s_[i] == '\n')) ++i;
    };
    if (i < s_.size() && (s_[i] == '-' || s_[i] == '+')) ++i;
    spaces();
    if (s_.substr(i, name.size()) != name) return 0;
    i += name.size();
    spaces();
    *sign = i < s_.size() && (s_[i] == '-' || s_[i] == '+') ? s_[i++] : '\0';
    return s_.substr(i, 2) == "%}" ? i + 2 : 0;
  };
  char sign = '\0';
  const size_t begin = match_tag(at_, "raw", &sign);
  if (begin == 0) return false;
  advance(begin - at_);
  end_tag(sign == '-', false);
  const size_t content = at_;
  for (size_t tag = s_.find("{%", content); tag != std::string_view::npos;
       tag = s_.find("{%", tag + 2)) {
    const size_t end = match_tag(tag, "endraw", &sign);
    if (end == 0) continue;
    text_ = std::string(s_.substr(content, tag - content));
    strip_text_before_tag(false);
    if (!text_.empty()) push(Token::Kind::kText, std::exchange(text_, {}));
    advance(end - at_);
    end_tag(sign == '-', sign != '+');
    return true;
  }
  error("A raw block has no end; close it with {% endraw %}.");
}

void Lexer::read_tag(bool is_output) {
  push(is_output ? Token::Kind::kOutputBegin : Token::Kind::kBlockBegin, "");
  advance(2);
  if (at("-") || at("+")) advance(1);
  const std::string_view close = is_output ? "}}" : "%}";
  open_brackets_.clear();
  while (true) {
    skip_space();
    if (at_ >= s_.size()) error("A tag has no end; close it with " + std::string(close) + ".");
    if (open_brackets_.empty()) {
      const char sign = s_[at_];
      const bool signed_end =
          (sign == '-' || (sign == '+' && !is_output)) && s_.substr(at_ + 1, 2) == close;
      if (signed_end || at(close)) {
        push(is_output ? Token::Kind::kOutputEnd : Token::Kind::kBlockEnd, "");
        advance(signed_end ? 3 : 2);
        end_tag(signed_end && sign == '-', !is_output && !signed_end);
        return;
      }
    }
    read_token();
  }
}

void Lexer::read_token() {
  const char c = s_[at_];
  if (c == '\'' || c == '"') return read_string();
  if (is_digit(c)) return read_number();
  if (is_name_start(c)) {
    size_t end = at_;
    while (end < s_.size() && is_name_part(s_[end])) ++end;
    push(Token::Kind::kName, std::string(s_.substr(at_, end - at_)));
    return advance(end - at_);
  }
  for (const std::string_view op : {"//", "**", "==", "!=", ">=", "<="}) {
    if (at(op)) {
      push(Token::Kind::kOperator, std::string(op));
      return advance(2);
    }
  }
  constexpr std::string_view kSingle = "+-*/%~[](){}<>=.:|,;";
  if (kSingle.find(c) == std::string_view::npos) {
    error("The character '" + std::string(1, c) + "' has no meaning in a tag.");
  }
  if (c == '(' || c == '[' || c == '{') open_brackets_.push_back(c);
  if (c == ')' || c == ']' || c == '}') {
    const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open_brackets_.empty() || open_brackets_.back() != open) {
      error("The bracket '" + std::string(1, c) + "' closes nothing.");
    }
    open_brackets_.pop_back();
  }
  push(Token::Kind::kOperator, std::string(1, c));
  advance(1);
}

void Lexer::read_number() {
  size_t end = at_;
  std::string digits;
  const auto read_digits = [&] {
    while (end < s_.size() && (is_digit(s_[end]) ||
                               (s_[end] == '_' && end + 1 < s_.size() && is_digit(s_[end + 1])))) {
      if (s_[end] != '_') digits.push_back(s_[end]);
      ++end;
    }
  };
  read_digits();
  bool real = false;
  if (end + 1 < s_.size() && s_[end] == '.' && is_digit(s_[end + 1])) {
    real = true;
    digits.push_back(s_[end++]);
    read_digits();
  }
  if (end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < s_.size() && (s_[exponent] == '+' || s_[exponent] == '-')) ++exponent;
    if (exponent < s_.size() && is_digit(s_[exponent])) {
      real = true;
      digits += s_.substr(end, exponent - end);
      end = exponent;
      read_digits();
    }
  }
  push(real ? Token::Kind::kReal : Token::Kind::kInteger, std::move(digits));
  advance(end - at_);
}

void Lexer::read_string() {
  const char quote = s_[at_];
  std::string out;
  size_t i = at_ + 1;
  while (true) {
    if (i >= s_.size()) error("A string has no end.");
    const char c = s_[i++];
    if (c == quote) break;
    if (c != '\\') {
      out.push_back(c);
      continue;
    }
    if (i >= s_.size()) error("A string has no end.");
    const char e = s_[i++];
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    const size_t known = kNames.find(e);
    const int hex_digits = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
    if (known != std::string_view::npos) {
      out.push_back("\a\b\f\n\r\t\v\\'\""[known]);
    } else if (hex_digits > 0) {
      uint32_t code = 0;
      const std::string_view text = s_.substr(i, hex_digits);
      const auto result = std::from_chars(text.begin(), text.end(), code, 16);
      if (static_cast<int>(text.size()) < hex_digits || result.ptr != text.end() ||
          code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        error("An escape in a string is damaged.");
      }
      append_utf8(out, code);
      i += hex_digits;
    } else if (e >= '0' && e <= '7') {
      uint32_t code = e - '0';
      for (int n = 0; n < 2 && i < s_.size() && s_[i] >= '0' && s_[i] <= '7'; ++n) {
        code = code * 8 + (s_[i++] - '0');
      }
      append_utf8(out, code);
    } else if (e != '\n') {  // an escaped line end joins the lines; others stand for themselves
      out.push_back('\\');
      out.push_back(e);
    }
  }
  push(Token::Kind::kString, std::move(out));
  advance(i - at_);
}

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace chimere::text::jinja
