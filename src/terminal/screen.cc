#include "terminal/screen.h"

#include <algorithm>

#include "terminal/cells.h"

namespace chimere::terminal {
namespace {

constexpr std::string_view kHideCursor = "\x1b[?25l";
constexpr std::string_view kShowCursor = "\x1b[?25h";

/// The longest beginning of the text that fits.
std::string_view cut(std::string_view text, int columns) {
  int width = 0;
  for (size_t at = 0; at < text.size();) {
    const Cluster cluster = cluster_at(text, at);
    width += cluster.width;
    if (width > columns) return text.substr(0, at);
    at += cluster.length;
  }
  return text;
}

}  // namespace

void Screen::write_rows(const Frame& frame, const Layout& layout, size_t first, size_t end,
                        int columns, std::string& out) const {
  for (size_t i = first; i < end; ++i) {
    const LayoutRow& row = layout.rows[i];
    int column = 0;
    if (row.indent > 0) {
      if (colours_) out += "\x1b[1;36m";
      out += i == 0 ? frame.prompt : frame.continuation;
      if (colours_) out += "\x1b[0m";
      column = row.indent;
    }
    for (size_t at = row.begin; at < row.end;) {
      const Cluster cluster = cluster_at(frame.text, at);
      if (frame.text[at] == '\t') {
        const int width = std::min(tab_width(column), std::max(columns - column, 1));
        out.append(static_cast<size_t>(width), ' ');
        column += width;
      } else {
        out += visible(frame.text.substr(at, cluster.length));
        column += cluster.width;
      }
      at += cluster.length;
    }
    if (i + 1 == end) break;
    const LayoutRow& next = layout.rows[i + 1];
    if (row.wraps && next.begin < next.end) {
      // What does not fit goes to the next row, as a terminal does with wide characters.
      if (column < columns) out.append(static_cast<size_t>(columns - column), ' ');
    } else {
      out += "\r\n";
    }
  }
}

void Screen::erase(const Frame& frame, TerminalSize size, std::string& out) {
  if (drawn_) {
    size_t above = rows_above_;
    if (size.columns != size_.columns) {
      // The terminal has wrapped the rows again.
      const Layout layout =
          lay_out(frame.text, frame.cursor, text_width(frame.prompt), size.columns);
      above = layout.cursor_row - std::min(layout.cursor_row, first_);
    }
    above = std::min(above, static_cast<size_t>(size.rows) - 1);
    if (above > 0) out += "\x1b[" + std::to_string(above) + "A";
  }
  out += "\r\x1b[J";
  size_ = size;
  drawn_ = true;
}

std::string Screen::draw(const Frame& frame, TerminalSize size) {
  std::string out(kHideCursor);
  erase(frame, size, out);
  const Layout layout = lay_out(frame.text, frame.cursor, text_width(frame.prompt), size.columns);
  size_t notes = frame.notes == nullptr ? 0 : frame.notes->size();
  notes = std::min(notes, static_cast<size_t>(std::max(size.rows - 2, 0)));
  const size_t height = static_cast<size_t>(std::max(size.rows - 1, 1)) - notes;
  first_ = window_start(layout, first_, height);
  const size_t end = std::min(layout.rows.size(), first_ + std::max<size_t>(height, 1));
  write_rows(frame, layout, first_, end, size.columns, out);
  size_t last = end - 1;
  for (size_t i = 0; i < notes; ++i) {
    out += colours_ ? "\r\n\x1b[2m" : "\r\n";
    // The last column stays free, so that the terminal does not wrap.
    out += cut((*frame.notes)[i], size.columns - 1);
    if (colours_) out += "\x1b[0m";
    ++last;
  }
  if (last > layout.cursor_row) {
    out += "\x1b[" + std::to_string(last - layout.cursor_row) + "A";
  }
  out += '\r';
  if (layout.cursor_column > 0) out += "\x1b[" + std::to_string(layout.cursor_column) + "C";
  rows_above_ = layout.cursor_row - first_;
  return out + std::string(kShowCursor);
}

std::string Screen::leave(const Frame& frame, TerminalSize size) {
  std::string out;
  erase(frame, size, out);
  const Layout layout =
      lay_out(frame.text, frame.text.size(), text_width(frame.prompt), size.columns);
  const size_t height = static_cast<size_t>(std::max(size.rows / 2, 1));
  const size_t end = std::min(layout.rows.size(), height);
  write_rows(frame, layout, 0, end, size.columns, out);
  out += "\r\n";
  if (end < layout.rows.size()) {
    if (colours_) out += "\x1b[2m";
    out += "... and " + std::to_string(layout.rows.size() - end) + " more rows";
    if (colours_) out += "\x1b[0m";
    out += "\r\n";
  }
  drawn_ = false;
  first_ = 0;
  return out;
}

}  // namespace chimere::terminal
