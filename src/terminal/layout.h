// Where a text of several lines stands on a terminal. Pure.
#ifndef CHIMERE_TERMINAL_LAYOUT_H_
#define CHIMERE_TERMINAL_LAYOUT_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace chimere::terminal {

/// One row of the terminal.
struct LayoutRow {
  size_t begin = 0;    ///< of its bytes in the text
  size_t end = 0;      ///< the line feed that ends it is not part of it
  int indent = 0;      ///< columns of the prompt before the text
  bool wraps = false;  ///< the text continues on the next row without a line feed
};

struct Layout {
  std::vector<LayoutRow> rows;  ///< at least one
  size_t cursor_row = 0;
  int cursor_column = 0;  ///< from 0, below the number of columns
};

/// Lays the text out as a terminal of so many columns wraps it. Each line after a line feed begins
/// behind `indent` columns, as the first one does. `cursor`: a cluster boundary. A cluster that is
/// wider than what is left of a row goes to the next one. A row that is full up to the last column
/// is followed by another one if the cursor stands behind it.
Layout lay_out(std::string_view text, size_t cursor, int indent, int columns);

/// The tab's width at a column: to the next multiple of 8.
inline int tab_width(int column) { return 8 - column % 8; }

/// The first row of a window of `height` rows that shows the cursor; `first`: of the last window.
size_t window_start(const Layout& layout, size_t first, size_t height);

}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_LAYOUT_H_
