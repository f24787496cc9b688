// Text in rows of a terminal's width.
#ifndef CHIMERE_APPS_CHIMERE_WRAP_TEXT_H_
#define CHIMERE_APPS_CHIMERE_WRAP_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace chimere::app {

/// The words of a text in rows that end before column `columns`. The first row continues one that
/// has reached column `at`; the others are indented by `indent`. A word longer than a row is cut.
/// The result has no line feed at its end. Columns are code points.
std::string wrap_text(std::string_view text, size_t indent, size_t columns, size_t at);

/// A row of a list: the name, indented by 2, and from column `column` on the text, wrapped; ends in
/// a line feed. A name that reaches the column has a row of its own.
std::string list_row(std::string_view name, std::string_view text, size_t column, size_t columns);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_WRAP_TEXT_H_
