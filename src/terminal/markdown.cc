#include "terminal/markdown.h"

#include <algorithm>
#include <utility>

#include "terminal/cells.h"
#include "terminal/inline_markdown.h"
#include "text/utf8.h"

namespace chimere::terminal {
namespace {

constexpr std::string_view kRule = "────────────────────";
constexpr std::string_view kBullet = "• ";
constexpr std::string_view kQuote = "│ ";
/// A longer table is drawn in parts, with widths of their own.
constexpr size_t kMostTableLines = 400;
/// Further columns are left out.
constexpr size_t kMostTableColumns = 40;

std::string_view without_indent(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  return at == std::string_view::npos ? std::string_view() : line.substr(at);
}

size_t leading(std::string_view text, char c) {
  const size_t end = text.find_first_not_of(c);
  return end == std::string_view::npos ? text.size() : end;
}

/// "---", "* * *": at least three equal marks and spaces.
bool is_rule(std::string_view text, bool complete) {
  if (text.empty() || std::string_view("-*_").find(text[0]) == std::string_view::npos) return false;
  size_t marks = 0;
  for (const char c : text) {
    if (c == text[0]) {
      ++marks;
    } else if (c != ' ') {
      return false;
    }
  }
  return marks >= 3 || !complete;
}

/// The cells of "| a | b |".
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::string cell;
  line = without_indent(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  const auto finish = [&] {
    const size_t first = cell.find_first_not_of(' ');
    const size_t last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    cell.clear();
  };
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\\' && at + 1 < line.size() && line[at + 1] == '|') {
      cell += line[++at];
    } else if (line[at] == '|') {
      finish();
    } else {
      cell += line[at];
    }
  }
  if (cell.find_first_not_of(' ') != std::string::npos) finish();
  return cells;
}

bool is_delimiter(const std::vector<std::string>& cells) {
  return !cells.empty() && std::ranges::all_of(cells, [](const std::string& cell) {
    return cell.find('-') != std::string::npos &&
           cell.find_first_not_of("-: ") == std::string::npos;
  });
}

std::string rendered(std::string_view cell, std::string_view base) {
  std::string out;
  (void)render_inline(cell, true, base, 0, out);
  return out;
}

/// Columns of a text with the control sequences of styles.
int styled_width(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      at = std::min(text.find('m', at), text.size());
    } else {
      plain += text[at];
    }
  }
  return text_width(plain);
}

}  // namespace

std::string VisibleText::push(std::string_view piece) {
  std::string text = std::exchange(held_, {});
  text += piece;
  // At most the last three bytes are an incomplete character.
  size_t complete = text.size();
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    if (text::read_utf8(text, at).kind == text::Utf8Char::Kind::kTruncated) complete = at;
    break;
  }
  held_ = text.substr(complete);
  text.resize(complete);
  return visible(text);
}

std::string VisibleText::finish() { return visible(std::exchange(held_, {})); }

std::string MarkdownRenderer::push(std::string_view piece) {
  std::string out;
  take(visible_.push(piece), out);
  return out;
}

std::string MarkdownRenderer::finish() {
  std::string out;
  take(visible_.finish(), out);
  render_line(true, out);
  if (begun_) end_line(out);
  end_table(out);
  line_.clear();
  fence_.reset();
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

void MarkdownRenderer::take(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t feed = text.find('\n');
    line_ += text.substr(0, feed);
    if (feed == std::string_view::npos) break;
    text.remove_prefix(feed + 1);
    render_line(true, out);
    end_line(out);
    if (table_.empty()) out += '\n';
  }
  if (!text.empty()) render_line(false, out);
}

void MarkdownRenderer::render_line(bool complete, std::string& out) {
  if (!begun_) {
    if (line_.empty() && !complete) return;
    if (!(fence_ ? begin_code_line(complete, out) : begin_line(complete, out))) return;
    begun_ = true;
  }
  if (code_ && fence_) {
    fence_->highlighter.push(line_, out);
    line_.clear();
    return;
  }
  const size_t taken = render_inline(line_, complete, base_, before_, out);
  if (taken > 0) before_ = line_[taken - 1];
  line_.erase(0, taken);
}

bool MarkdownRenderer::begin_code_line(bool complete, std::string& out) {
  const std::string_view text = without_indent(line_);
  const size_t marks = leading(text, fence_->mark);
  const bool only_marks = without_indent(text.substr(marks)).empty();
  if (only_marks && !complete && text.size() < 80) return false;
  if (only_marks && marks >= fence_->length && complete) {
    fence_.reset();
    out += style::kDim;
    out += line_;
    line_.clear();
    base_ = style::kDim;
    return true;
  }
  code_ = true;
  return true;
}

bool MarkdownRenderer::begin_line(bool complete, std::string& out) {
  const std::string_view text = without_indent(line_);
  const std::string indent = line_.substr(0, line_.size() - text.size());
  if (!table_.empty() && !text.starts_with('|') && (!text.empty() || complete)) end_table(out);
  if (text.empty()) return complete;
  const char first = text[0];
  const size_t marks = leading(text, first);
  if (first == '|') {
    if (!complete) return false;
    if (table_.size() == kMostTableLines) end_table(out);
    table_.push_back(std::exchange(line_, {}));
    return true;
  }
  if (first == '`' || first == '~') {
    if (marks < 3 && marks == text.size() && !complete) return false;
    const bool is_fence =
        marks >= 3 && (first == '~' || text.find('`', marks) == std::string_view::npos);
    if (is_fence) {
      if (!complete) return false;
      fence_.emplace(Fence{first, marks, CodeHighlighter(without_indent(text.substr(marks)))});
      out += style::kDim;
      out += line_;
      line_.clear();
      base_ = style::kDim;
      return true;
    }
  } else if (first == '#') {
    if (marks == text.size() && !complete && marks <= 6) return false;
    if (marks <= 6 && marks < text.size() && text[marks] == ' ') {
      base_ = style::kHeading;
      out += base_;
      line_.erase(0, indent.size() + marks + 1);
      return true;
    }
  } else if (is_rule(text, complete)) {
    if (!complete) return false;  // "- " becomes an item with its text
    out += style::kDim;
    out += kRule;
    line_.clear();
    base_ = style::kDim;
    return true;
  }
  if ((first == '-' || first == '*' || first == '+') && marks == 1) {
    if (text.size() == 1 && !complete) return false;
    if (text.size() > 1 && text[1] == ' ') {
      out += indent;
      ((out += style::kMarker) += kBullet) += style::kReset;
      line_.erase(0, indent.size() + 2);
    }
  } else if (first == '>') {
    if (text.size() == 1 && !complete) return false;
    out += indent;
    base_ = style::kDim;
    (out += base_) += kQuote;
    line_.erase(0, indent.size() + (text.size() > 1 && text[1] == ' ' ? 2 : 1));
  } else if (first >= '0' && first <= '9') {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits + 2 > text.size() && !complete && digits < 10) return false;
    if (digits + 1 < text.size() && (text[digits] == '.' || text[digits] == ')') &&
        text[digits + 1] == ' ') {
      out += indent;
      ((out += style::kMarker) += text.substr(0, digits + 2)) += style::kReset;
      line_.erase(0, indent.size() + digits + 2);
    }
  }
  return true;
}

void MarkdownRenderer::end_line(std::string& out) {
  if (code_ && fence_) fence_->highlighter.end_line(out);
  if (!base_.empty()) out += style::kReset;
  base_.clear();
  line_.clear();
  begun_ = false;
  code_ = false;
  before_ = 0;
}

void MarkdownRenderer::end_table(std::string& out) {
  if (table_.empty()) return;
  std::vector<std::vector<std::string>> rows;
  std::vector<int> widths;
  for (const std::string& line : std::exchange(table_, {})) {
    rows.push_back(cells_of(line));
    std::vector<std::string>& row = rows.back();
    row.resize(std::min(row.size(), kMostTableColumns));
    if (is_delimiter(row)) continue;
    const bool head = rows.size() == 1;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = head ? std::string(style::kBold) + rendered(row[i], style::kBold) +
                          std::string(style::kReset)
                    : rendered(row[i], "");
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], styled_width(row[i]));
    }
  }
  for (const std::vector<std::string>& row : rows) {
    if (is_delimiter(row)) {
      out += style::kDim;
      for (size_t i = 0; i < widths.size(); ++i) {
        if (i > 0) out += "─┼─";
        for (int column = 0; column < widths[i]; ++column) out += "─";
      }
      out += style::kReset;
    } else {
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) ((out += style::kDim) += " │ ") += style::kReset;
        out += row[i];
        const int space = i < widths.size() ? widths[i] - styled_width(row[i]) : 0;
        if (i + 1 < row.size()) out.append(static_cast<size_t>(std::max(space, 0)), ' ');
      }
    }
    out += '\n';
  }
}

}  // namespace chimere::terminal
