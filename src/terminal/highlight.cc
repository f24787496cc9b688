#include "terminal/highlight.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "terminal/inline_markdown.h"

namespace chimere::terminal {

struct CodeLanguage {
  std::string_view names;         ///< separated and surrounded by spaces
  std::string_view line_comment;  ///< one or two characters; empty: none
  bool block_comments;            ///< /* and */
  std::string_view quotes;
  bool any_case;  ///< of keywords
  std::string_view keywords;
};

namespace {

constexpr std::array kLanguages = std::to_array<CodeLanguage>({
    {" c cpp c++ cc h hpp cuda objc cs csharp java kotlin swift scala dart rust rs go golang php "
     "zig ",
     "//", true, "\"'", false,
     " alignas as async auto await bool break case catch char class const constexpr continue def "
     "default defer delete do double dyn else enum export extends extern false final float fn for "
     "func go goto if impl implements import in inline int interface let long loop match mod move "
     "mut namespace new nil null nullptr override package private protected pub public range "
     "return self short signed sizeof static struct super switch template this throw trait true "
     "try type typedef typename union unsafe unsigned use using val var virtual void volatile "
     "when where while "},
    {" js javascript jsx ts typescript tsx mjs json jsonc json5 ", "//", true, "\"'`", false,
     " as async await break case catch class const continue debugger default delete do else enum "
     "export extends false finally for from function if implements import in instanceof interface "
     "let new null of private public readonly return static super switch this throw true try type "
     "typeof undefined var void while yield "},
    {" python py python3 ", "#", false, "\"'", false,
     " False None True and as assert async await break class continue def del elif else except "
     "finally for from global if import in is lambda match nonlocal not or pass raise return self "
     "try while with yield "},
    {" sh bash zsh shell console fish shell-session ", "#", false, "\"'", false,
     " case do done elif else esac exit export fi for function if in local return set shift source "
     "sudo then trap unset until while "},
    {" ruby rb perl pl r julia elixir ", "#", false, "\"'", false,
     " and begin break case class def do else elsif end ensure false for function if in my next "
     "nil not or package print require rescue return self sub then true unless until use when "
     "while yield "},
    {" yaml yml toml ini conf dockerfile make makefile cmake nginx ", "#", false, "\"'", false,
     " CMD COPY ENTRYPOINT ENV EXPOSE FROM RUN WORKDIR else endif false if no null off on true "
     "yes "},
    {" sql postgresql mysql sqlite ", "--", true, "'\"", true,
     " ALL ALTER AND AS ASC BEGIN BETWEEN BY CASE COMMIT CREATE DELETE DESC DISTINCT DROP ELSE END "
     "EXISTS FROM GROUP HAVING IN INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL ON "
     "OR ORDER OUTER PRIMARY REFERENCES RIGHT ROLLBACK SELECT SET TABLE THEN UNION UNIQUE UPDATE "
     "VALUES VIEW WHEN WHERE WITH "},
    {" lua haskell hs elm ada ", "--", false, "\"", false,
     " and case class data do else elseif end false for function if import in instance let local "
     "module nil not of or repeat return then true type until where while "},
    {" css scss less ", "", true, "\"'", false, " important "},
    {" html xml svg vue ", "", false, "\"", false, " "},
    {" lisp clojure scheme asm nasm ", ";", false, "\"", false,
     " def defn defun define if lambda let loop nil quote setq "},
});

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(char c) {
  return static_cast<uint8_t>(c) >= 0x80 || is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

/// Words longer than this are no keywords, and are not held back.
constexpr size_t kLongestWord = 40;

}  // namespace

const CodeLanguage* find_language(std::string_view name) {
  std::string word = " ";
  for (const char c : name.substr(0, name.find_first_of(" \t{,"))) word += lower(c);
  word += ' ';
  const auto* const found = std::ranges::find_if(kLanguages, [&](const CodeLanguage& language) {
    return word.size() > 2 && language.names.find(word) != std::string_view::npos;
  });
  return found == kLanguages.end() ? nullptr : found;
}

void CodeHighlighter::push(std::string_view code, std::string& out) {
  if (language_ == nullptr) {
    out += code;
    return;
  }
  for (const char c : code) take(c, out);
}

void CodeHighlighter::end_line(std::string& out) {
  finish_word(out);
  out += marker_;
  marker_.clear();
  escaped_ = false;
  last_ = ' ';
  if (state_ == State::kCode) return;
  out += style::kReset;
  // Strings between backticks and comments may span lines.
  const bool spans = state_ == State::kBlockComment || (state_ == State::kString && quote_ == '`');
  if (!spans) {
    state_ = State::kCode;
  } else {
    marker_ = "\n";  // the style begins again with the next character
  }
}

void CodeHighlighter::open(State state, std::string_view style, std::string& out) {
  state_ = state;
  out += style;
}

void CodeHighlighter::close(std::string& out) {
  state_ = State::kCode;
  out += style::kReset;
}

void CodeHighlighter::finish_word(std::string& out) {
  if (word_.empty()) return;
  std::string key = " ";
  for (const char c : word_) key += language_->any_case ? upper(c) : c;
  key += ' ';
  const bool keyword = language_->keywords.find(key) != std::string_view::npos;
  const bool number = is_digit(word_[0]);
  if (keyword || number) out += keyword ? style::kKeyword : style::kNumber;
  out += word_;
  if (keyword || number) out += style::kReset;
  word_.clear();
}

void CodeHighlighter::take(char c, std::string& out) {
  if (marker_ == "\n") {
    marker_.clear();
    out += state_ == State::kString ? style::kString : style::kDim;
  }
  switch (state_) {
    case State::kLineComment:
      out += c;
      return;
    case State::kBlockComment:
      out += c;
      if (last_ == '*' && c == '/') close(out);
      last_ = c;
      return;
    case State::kString:
      out += c;
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == quote_) {
        close(out);
      }
      last_ = c;
      return;
    case State::kCode:
      break;
  }
  if (!marker_.empty()) {
    const char first = marker_[0];
    marker_.clear();
    const std::string_view comment = language_->line_comment;
    if (comment.size() == 2 && first == comment[0] && c == comment[1]) {
      open(State::kLineComment, style::kDim, out);
      (out += first) += c;
      return;
    }
    if (language_->block_comments && first == '/' && c == '*') {
      open(State::kBlockComment, style::kDim, out);
      (out += first) += c;
      last_ = ' ';
      return;
    }
    out += first;
  }
  if (is_name(c)) {
    if (word_.size() > kLongestWord) {
      out += word_;
      word_.clear();
    }
    word_ += c;
    last_ = c;
    return;
  }
  finish_word(out);
  const std::string_view comment = language_->line_comment;
  // "$#" and "a#b" are no comments.
  if (comment.size() == 1 && c == comment[0] && (last_ == ' ' || last_ == '\t')) {
    open(State::kLineComment, style::kDim, out);
    out += c;
    return;
  }
  if ((comment.size() == 2 && c == comment[0]) || (language_->block_comments && c == '/')) {
    marker_ = c;
    last_ = c;
    return;
  }
  // An apostrophe behind a letter is none of a string: don't, 'a.
  if (language_->quotes.find(c) != std::string_view::npos && (c != '\'' || !is_name(last_))) {
    quote_ = c;
    escaped_ = false;
    open(State::kString, style::kString, out);
  }
  out += c;
  last_ = c;
}

}  // namespace chimere::terminal
