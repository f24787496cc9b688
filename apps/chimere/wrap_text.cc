#include "wrap_text.h"

#include <algorithm>

namespace chimere::app {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

size_t code_points(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

/// The length in bytes of the first `count` code points.
size_t prefix_bytes(std::string_view text, size_t count) {
  size_t end = 0;
  while (end < text.size() && (continues(text[end]) || count-- > 0)) ++end;
  return end;
}

}  // namespace

std::string wrap_text(std::string_view text, size_t indent, size_t columns, size_t at) {
  // A terminal too narrow for the indent gets rows that exceed it.
  columns = std::max(columns, indent + 8);
  std::string out;
  bool row_is_empty = true;
  const auto begin_row = [&] {
    out += '\n';
    out.append(indent, ' ');
    at = indent;
    row_is_empty = true;
  };
  while (true) {
    const size_t begin = std::min(text.find_first_not_of(" \n"), text.size());
    text.remove_prefix(begin);
    if (text.empty()) return out;
    std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    if (!row_is_empty && at + 1 + code_points(word) > columns) begin_row();
    if (!row_is_empty) {
      out += ' ';
      ++at;
    }
    while (at + code_points(word) > columns) {
      const size_t cut = prefix_bytes(word, columns - std::min(at, columns));
      out += word.substr(0, cut);
      word.remove_prefix(cut);
      begin_row();
    }
    out += word;
    at += code_points(word);
    row_is_empty = false;
  }
}

std::string list_row(std::string_view name, std::string_view text, size_t column, size_t columns) {
  std::string out = "  " + std::string(name);
  size_t at = 2 + code_points(name);
  if (at + 2 > column) {
    out += '\n';
    at = 0;
  }
  out.append(column - at, ' ');
  return out + wrap_text(text, column, columns, column) + '\n';
}

}  // namespace chimere::app
