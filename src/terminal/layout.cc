#include "terminal/layout.h"

#include <algorithm>

#include "terminal/cells.h"

namespace chimere::terminal {

Layout lay_out(std::string_view text, size_t cursor, int indent, int columns) {
  columns = std::max(columns, 1);
  if (indent >= columns) indent = 0;
  Layout out;
  LayoutRow row = {.indent = indent};
  int column = indent;
  const auto finish = [&](size_t end, bool wraps) {
    row.end = end;
    row.wraps = wraps;
    out.rows.push_back(row);
  };
  const auto place_cursor = [&] {
    out.cursor_row = out.rows.size();
    out.cursor_column = column;
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      if (at == cursor) {
        if (column == columns) {
          finish(at, true);
          row = {.begin = at};
          column = 0;
        }
        place_cursor();
      }
      finish(at, false);
      ++at;
      row = {.begin = at, .indent = indent};
      column = indent;
      continue;
    }
    const Cluster cluster = cluster_at(text, at);
    int width = text[at] == '\t' ? tab_width(column) : cluster.width;
    if (text[at] == '\t' && column + width > columns) width = std::max(columns - column, 1);
    if (column + width > columns && column > 0) {
      finish(at, true);
      row = {.begin = at};
      column = 0;
      if (text[at] == '\t') width = std::min(tab_width(0), columns);
    }
    if (at <= cursor && cursor < at + cluster.length) place_cursor();
    column += std::min(width, columns);
    at += cluster.length;
  }
  if (cursor >= text.size()) {
    if (column == columns) {
      finish(text.size(), true);
      row = {.begin = text.size()};
      column = 0;
    }
    place_cursor();
  }
  finish(text.size(), false);
  return out;
}

size_t window_start(const Layout& layout, size_t first, size_t height) {
  const size_t rows = layout.rows.size();
  height = std::max<size_t>(height, 1);
  if (rows <= height) return 0;
  first = std::min(first, rows - height);
  if (layout.cursor_row < first) return layout.cursor_row;
  if (layout.cursor_row >= first + height) return layout.cursor_row - height + 1;
  return first;
}

}  // namespace chimere::terminal
