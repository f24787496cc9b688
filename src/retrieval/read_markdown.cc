#include <algorithm>
#include <cctype>
#include <string>

#include "retrieval/block_builder.h"
#include "retrieval/line_reader.h"
#include "retrieval/readers.h"

namespace chimere::retrieval {
namespace {

bool is_all(std::string_view text, char c) {
  return std::ranges::all_of(text, [c](char x) { return x == c; });
}

size_t indent_of(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  if (at != std::string_view::npos && line[at] == '\t') return 4;
  return at == std::string_view::npos ? 0 : at;
}

/// The level of an ATX heading and its text; 0: it is none.
int atx_heading(std::string_view line, std::string_view& text) {
  const size_t marks = std::min(line.find_first_not_of('#'), line.size());
  if (marks == 0 || marks > 6) return 0;
  if (marks < line.size() && line[marks] != ' ' && line[marks] != '\t') return 0;
  text = trimmed(line.substr(marks));
  const size_t last = text.find_last_not_of('#');
  if (last == std::string_view::npos) {
    text = {};
  } else if (last + 1 < text.size() && text[last] == ' ') {
    text = trimmed(text.substr(0, last));
  }
  return static_cast<int>(marks);
}

/// The fence that a line opens: its character and length; 0: none.
size_t fence_of(std::string_view line, char& mark) {
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return 0;
  mark = line[0];
  const size_t length = std::min(line.find_first_not_of(mark), line.size());
  return length < 3 ? 0 : length;
}

/// Whether a line begins a list item.
bool is_item(std::string_view line) {
  if (line.size() >= 2 && (line[0] == '-' || line[0] == '*' || line[0] == '+') && line[1] == ' ')
    return true;
  size_t digits = 0;
  while (digits < line.size() && digits < 9 &&
         std::isdigit(static_cast<unsigned char>(line[digits])) != 0) {
    ++digits;
  }
  return digits > 0 && digits + 1 < line.size() && (line[digits] == '.' || line[digits] == ')') &&
         line[digits + 1] == ' ';
}

/// The end of a tag that begins at `at`, at most 2,000 bytes on; npos: it is none.
size_t end_of_tag(std::string_view text, size_t at) {
  constexpr size_t kMost = 2000;
  if (at + 1 >= text.size()) return std::string_view::npos;
  const char next = text[at + 1];
  if (next != '/' && next != '!' && std::isalpha(static_cast<unsigned char>(next)) == 0)
    return std::string_view::npos;
  const size_t end = text.substr(at, kMost).find('>');
  return end == std::string_view::npos ? end : at + end;
}

/// Where the target of a link, which begins at `at` with a parenthesis, ends; npos: nowhere near.
size_t end_of_target(std::string_view text, size_t at) {
  constexpr size_t kMost = 2000;
  int depth = 0;
  for (size_t i = at; i < text.size() && i < at + kMost; ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
    if (text[i] == '\n') return std::string_view::npos;
  }
  return std::string_view::npos;
}

/// Links and images become their text, tags and emphasis disappear; code spans stay as they are.
std::string plain(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool code = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`') {
      code = !code;
    } else if (code) {
      out += c;
    } else if (c == '\\' && i + 1 < text.size() &&
               std::ispunct(static_cast<unsigned char>(text[i + 1])) != 0) {
      out += text[++i];
    } else if (c == '<') {
      const size_t end = end_of_tag(text, i);
      if (end == std::string_view::npos) {
        out += c;
      } else {
        i = end;
      }
    } else if (c == '[' || (c == '!' && i + 1 < text.size() && text[i + 1] == '[')) {
      if (c == '!') ++i;
    } else if (c == ']') {
      const size_t end = i + 1 < text.size() && text[i + 1] == '(' ? end_of_target(text, i + 1)
                                                                   : std::string::npos;
      if (end != std::string_view::npos) i = end;
    } else if (c == '*') {
      // A list's mark is at the beginning of a line, a product between spaces.
      const bool alone = (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n') &&
                         i + 1 < text.size() && text[i + 1] == ' ';
      if (alone) out += c;
    } else {
      out += c;
    }
  }
  return out;
}

/// The title in a front matter (lines between two lines of ---), which is skipped.
std::string skip_front_matter(LineReader& lines) {
  LineReader ahead = lines;
  if (!ahead.next() || ahead.line() != "---") return "";
  std::string title;
  for (int n = 0; n < 100 && ahead.next(); ++n) {
    if (ahead.line() == "---" || ahead.line() == "...") {
      lines = ahead;
      return title;
    }
    if (ahead.line().starts_with("title:")) {
      std::string_view text = trimmed(ahead.line().substr(6));
      if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
          text.back() == text.front())
        text = text.substr(1, text.size() - 2);
      title = text;
    }
  }
  return "";
}

class MarkdownReader {
 public:
  explicit MarkdownReader(std::string_view text) : lines_(text), builder_(document_) {}

  Document read() {
    document_.title = skip_front_matter(lines_);
    while (lines_.next()) line();
    builder_.end();
    return std::move(document_);
  }

 private:
  void line() {
    const std::string_view whole = lines_.line();
    const std::string_view text = trimmed(whole);
    const int64_t number = lines_.number();
    if (fence_ > 0) {
      char mark = 0;
      if (fence_of(text, mark) >= fence_ && mark == fence_mark_ && is_all(text, mark)) {
        fence_ = 0;
        builder_.end();
      } else {
        builder_.add(Block::Kind::kCode, whole, number);
      }
      return;
    }
    if (text.empty()) {
      builder_.end();
      return;
    }
    if (indent_of(whole) < 4) {
      fence_ = fence_of(text, fence_mark_);
      if (fence_ > 0) {
        builder_.end();
        in_list_ = in_list_ && indent_of(whole) >= 2;
        return;
      }
      std::string_view title;
      if (const int level = atx_heading(text, title); level > 0) {
        heading(level, title, number);
        return;
      }
      if (builder_.empty() && !is_item(text)) {
        const std::string_view below = trimmed(lines_.peek());
        if (below.size() >= 2 && (is_all(below, '=') || is_all(below, '-'))) {
          heading(below.front() == '=' ? 1 : 2, text, number);
          lines_.next();
          return;
        }
      }
    } else if (builder_.empty() && !in_list_) {
      builder_.add(Block::Kind::kCode, whole, number);
      builder_.end();
      return;
    }
    in_list_ = is_item(text) || (in_list_ && indent_of(whole) >= 2);
    builder_.add(Block::Kind::kText, plain(whole), number);
  }

  void heading(int level, std::string_view text, int64_t number) {
    const std::string clean = plain(text);
    builder_.heading(level, trimmed(clean), number);
    if (level == 1 && document_.title.empty()) document_.title = trimmed(clean);
    in_list_ = false;
  }

  Document document_;
  LineReader lines_;
  BlockBuilder builder_;
  size_t fence_ = 0;  ///< length of the fence of the code block; 0: outside
  char fence_mark_ = 0;
  bool in_list_ = false;
};

}  // namespace

Document read_markdown(std::string_view text) { return MarkdownReader(text).read(); }

}  // namespace chimere::retrieval
