// Expressions, by the precedence rules of Jinja.
#ifndef CHIMERE_TEXT_JINJA_EXPRESSION_PARSER_H_
#define CHIMERE_TEXT_JINJA_EXPRESSION_PARSER_H_

#include <string>

#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace chimere::text::jinja {

class ExpressionParser {
 public:
  /// Mentioned so far; the parser of statements takes it apart by macros.
  SpecialNames mentioned;

  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// With conditional (`a if b else c`).
  ExpressionPtr expression();
  /// Without conditional, for `for x in HERE if ...`.
  ExpressionPtr or_expression();
  /// One expression, or several with commas between them as a tuple. `conditional`: as above.
  ExpressionPtr tuple_or_expression(bool conditional = true);
  /// Filters after a filter block's name, on a null input.
  ExpressionPtr filter_chain();
  /// Assignment targets: names, attributes of names, and tuples of names.
  ExpressionPtr target(bool with_attributes);

 private:
  ExpressionPtr make(Expression::Kind kind) const;
  /// Adds a child and keeps the height within limits.
  void adopt(Expression& parent, ExpressionPtr child) const;
  ExpressionPtr binary(Expression::Kind kind, std::string name, ExpressionPtr left,
                       ExpressionPtr right) const;
  ExpressionPtr and_expression();
  ExpressionPtr not_expression();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr parenthesized();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr call(ExpressionPtr function);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  void arguments(Expression& node);
  std::string dotted_name();

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_EXPRESSION_PARSER_H_
