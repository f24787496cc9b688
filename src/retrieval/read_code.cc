#include <algorithm>
#include <cctype>
#include <string>

#include "retrieval/block_builder.h"
#include "retrieval/line_reader.h"
#include "retrieval/readers.h"

namespace chimere::retrieval {
namespace {

/// Words that begin a definition.
constexpr std::string_view kDefinitions[] = {
    "def",     "class",     "func",   "fn",       "function", "struct", "enum",      "interface",
    "impl",    "module",    "trait",  "type",     "sub",      "proc",   "namespace", "union",
    "object",  "record",    "macro",  "defun",    "async",    "export", "pub",       "public",
    "private", "protected", "static", "template", "abstract", "final",  "CREATE",    "create"};

bool comment(std::string_view line) {
  for (const std::string_view mark : {"//", "#", "/*", "*", "--", ";;", "\"\"\"", "@"})
    if (line.starts_with(mark)) return true;
  return false;
}

std::string_view first_word(std::string_view line) {
  size_t end = 0;
  while (end < line.size() &&
         (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_'))
    ++end;
  return line.substr(0, end);
}

/// The level of the definition that a line begins; 0: it begins none.
int definition_level(std::string_view line) {
  const std::string_view text = trimmed(line);
  const size_t indent = line.find_first_not_of(" \t");
  if (text.empty() || comment(text)) return 0;
  const std::string_view word = first_word(text);
  const bool named = std::ranges::find(kDefinitions, word) != std::end(kDefinitions);
  const int level = indent == 0 ? 1 : 2;
  if (named && indent <= 4 && text.size() > word.size()) return level;
  // C and its relatives: "type name(" at the margin, not a call or a declaration.
  const size_t parenthesis = text.find('(');
  if (indent == 0 && !word.empty() && parenthesis != std::string_view::npos &&
      parenthesis > word.size() && text.find('=') > parenthesis && !text.ends_with(';'))
    return 1;
  return 0;
}

/// A definition's line without what follows its signature.
std::string_view signature(std::string_view line) {
  constexpr size_t kMost = 100;
  std::string_view text = trimmed(line);
  text = trimmed(text.substr(0, text.find('{')));
  if (text.ends_with(':')) text.remove_suffix(1);
  size_t end = std::min(text.size(), kMost);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80)
    --end;
  return text.substr(0, end);
}

}  // namespace

Document read_code(std::string_view source) {
  Document document;
  BlockBuilder builder(document);
  LineReader lines(source);
  std::string comments;  // that may belong to the next definition
  int64_t comments_line = 0;
  const auto flush = [&] {
    if (!comments.empty()) builder.add(Block::Kind::kCode, comments, comments_line);
    comments.clear();
  };
  while (lines.next()) {
    const std::string_view line = lines.line();
    const std::string_view text = trimmed(line);
    if (text.empty()) {
      flush();
      builder.end();
      continue;
    }
    if (comment(text) && builder.empty()) {
      if (comments.empty()) comments_line = lines.number();
      if (!comments.empty()) comments += '\n';
      comments += line;
      continue;
    }
    if (const int level = definition_level(line); level > 0) {
      builder.heading(level, signature(line), comments.empty() ? lines.number() : comments_line);
    }
    flush();
    builder.add(Block::Kind::kCode, line, lines.number());
  }
  flush();
  builder.end();
  return document;
}

}  // namespace chimere::retrieval
