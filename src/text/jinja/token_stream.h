// The token cursor of the parsers.
#ifndef CHIMERE_TEXT_JINJA_TOKEN_STREAM_H_
#define CHIMERE_TEXT_JINJA_TOKEN_STREAM_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/budget.h"
#include "text/jinja/lexer.h"

namespace chimere::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view text) const {
    return is(Token::Kind::kOperator) && current().text == text;
  }
  bool is_name(std::string_view text) const {
    return is(Token::Kind::kName) && current().text == text;
  }
  bool take_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (next(), true); }

  void expect_operator(std::string_view text) {
    if (!take_operator(text)) error("'" + std::string(text) + "' is expected");
  }
  std::string expect_name() {
    if (!is(Token::Kind::kName)) error("a name is expected");
    return next().text;
  }
  void expect(Token::Kind kind, std::string_view what) {
    if (!is(kind)) error(std::string(what) + " is expected");
    next();
  }

  [[noreturn]] void error(const std::string& what) const {
    fail("Line " + std::to_string(current().line) + ": " + what +
         (current().text.empty() ? "." : " before '" + current().text.substr(0, 40) + "'."));
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_TOKEN_STREAM_H_
