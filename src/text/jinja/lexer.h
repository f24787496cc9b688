// Splits a template into text and the tokens of its tags.
#ifndef CHIMERE_TEXT_JINJA_LEXER_H_
#define CHIMERE_TEXT_JINJA_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

namespace chimere::text::jinja {

struct Token {
  enum class Kind {
    kText,         ///< outside tags, white space control applied
    kOutputBegin,  ///< {{
    kOutputEnd,    ///< }}
    kBlockBegin,   ///< {%
    kBlockEnd,     ///< %}
    kName,
    kString,  ///< unescaped
    kInteger,
    kReal,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;
};

/// With trim_blocks, lstrip_blocks and without keep_trailing_newline, as chat templates are written
/// for. Fails (TemplateError) for invalid templates.
std::vector<Token> tokenize_template(std::string_view source);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_LEXER_H_
