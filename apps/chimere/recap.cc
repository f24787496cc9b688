#include "recap.h"

#include <algorithm>

#include "terminal/cells.h"

namespace chimere::app {
namespace {

constexpr std::string_view kOmissionMark = " ...";
constexpr std::string_view kWordSeparators = " \t\n";

std::string_view answer_of(std::string_view text, std::string_view reasoning_close) {
  const size_t close =
      reasoning_close.empty() ? std::string_view::npos : text.find(reasoning_close);
  return close == std::string_view::npos ? text : text.substr(close + reasoning_close.size());
}

/// Removes clusters from the end until the text has at most so many columns.
void shorten(std::string& text, int columns) {
  while (!text.empty() && terminal::text_width(text) > columns) {
    text.resize(terminal::cluster_before(text, text.size()));
  }
  while (text.ends_with(' ')) text.pop_back();
}

}  // namespace

std::string shorten_to_rows(std::string_view text, size_t rows, size_t indent, size_t columns) {
  const int width = static_cast<int>(std::max(columns, indent + 8) - indent);
  std::string out;
  std::string row;
  for (size_t shown = 0;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kWordSeparators), text.size()));
    if (text.empty()) return out + row;
    std::string word = terminal::visible(text.substr(0, text.find_first_of(kWordSeparators)));
    const bool fits = terminal::text_width(row) + 1 + terminal::text_width(word) <= width;
    if (!row.empty() && !fits) {
      if (++shown == rows) {
        shorten(row, width - static_cast<int>(kOmissionMark.size()));
        return out.append(row).append(kOmissionMark);
      }
      out += row + "\n" + std::string(indent, ' ');
      row.clear();
    }
    if (terminal::text_width(word) > width) {  // one word, such as an address
      shorten(word, width - static_cast<int>(kOmissionMark.size()));
      return out.append(row).append(word).append(kOmissionMark);
    }
    row += (row.empty() ? "" : " ") + word;
    text.remove_prefix(std::min(text.find_first_of(kWordSeparators), text.size()));
  }
}

std::string recap(const std::vector<text::ChatMessage>& messages, std::string_view reasoning_close,
                  size_t columns) {
  constexpr int kQuestions = 2;
  constexpr size_t kRows = 3;
  constexpr size_t kIndent = 2;
  auto first = messages.end();
  for (int left = kQuestions; first != messages.begin() && left > 0;) {
    if ((--first)->role == "user") --left;
  }
  std::string out;
  for (auto m = first; m != messages.end(); ++m) {
    if (m->role == "system") continue;
    const bool question = m->role == "user";
    const std::string_view text = question ? m->content : answer_of(m->content, reasoning_close);
    out += out.empty() ? "" : "\n";
    out += (question ? "> " : "  ") + shorten_to_rows(text, kRows, kIndent, columns);
  }
  return out;
}

}  // namespace chimere::app
