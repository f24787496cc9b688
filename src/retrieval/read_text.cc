#include <algorithm>

#include "retrieval/block_builder.h"
#include "retrieval/line_reader.h"
#include "retrieval/readers.h"

namespace chimere::retrieval {
namespace {

/// The level of a heading with this line below it; 0: the line is no underline.
int level_of_underline(std::string_view line, std::string_view heading) {
  line = trimmed(line);
  if (line.size() < 3 || line.size() + 2 < heading.size()) return 0;
  if (std::ranges::all_of(line, [](char c) { return c == '='; })) return 1;
  if (std::ranges::all_of(line, [](char c) { return c == '-'; })) return 2;
  if (std::ranges::all_of(line, [](char c) { return c == '~' || c == '^'; })) return 3;
  return 0;
}

}  // namespace

Document read_text(std::string_view text) {
  constexpr size_t kMostHeading = 100;
  Document document;
  BlockBuilder builder(document);
  LineReader lines(text);
  while (lines.next()) {
    const std::string_view line = trimmed(lines.line());
    if (line.empty()) {
      builder.end();
      continue;
    }
    const int level =
        builder.empty() && line.size() <= kMostHeading ? level_of_underline(lines.peek(), line) : 0;
    if (level > 0) {
      builder.heading(level, line, lines.number());
      if (document.title.empty()) document.title = line;
      lines.next();
    } else {
      builder.add(Block::Kind::kText, lines.line(), lines.number());
    }
  }
  builder.end();
  return document;
}

}  // namespace chimere::retrieval
