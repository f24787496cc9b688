// Template text to syntax tree.
#ifndef CHIMERE_TEXT_JINJA_PARSER_H_
#define CHIMERE_TEXT_JINJA_PARSER_H_

#include <string_view>

#include "text/jinja/ast.h"

namespace chimere::text::jinja {

/// Fails (TemplateError, with the line) for invalid templates, for tags that chat templates do
/// not need (extends, include, import, block), and above kMaxNesting.
Block parse_template(std::string_view source);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_PARSER_H_
