#include "terminal/line_buffer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "terminal/cells.h"

namespace chimere::terminal {
namespace {

constexpr size_t kMostKills = 30;
constexpr size_t kMostUndoBytes = 16 << 20;

bool is_word_byte(char c) {
  return static_cast<uint8_t>(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

void LineBuffer::set(std::string text) {
  begin(Edit::kNone);
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineBuffer::clear() {
  text_.clear();
  cursor_ = 0;
  last_ = Edit::kNone;
  past_.clear();
  past_bytes_ = 0;
}

void LineBuffer::insert(std::string_view text) {
  begin(text.size() <= 4 && !text.starts_with('\n') ? Edit::kTyping : Edit::kNone);
  text_.insert(cursor_, text);
  cursor_ += text.size();
  last_cursor_ = cursor_;
}

void LineBuffer::replace_before_cursor(size_t start, std::string_view text) {
  begin(Edit::kNone);
  text_.replace(start, cursor_ - start, text);
  cursor_ = start + text.size();
}

bool LineBuffer::left() {
  if (cursor_ == 0) return false;
  cursor_ = cluster_before(text_, cursor_);
  return true;
}

bool LineBuffer::right() {
  if (cursor_ == text_.size()) return false;
  cursor_ += cluster_at(text_, cursor_).length;
  return true;
}

size_t LineBuffer::word_start_before(size_t at) const {
  while (at > 0 && !is_word_byte(text_[at - 1])) --at;
  while (at > 0 && is_word_byte(text_[at - 1])) --at;
  return at;
}

size_t LineBuffer::word_end_after(size_t at) const {
  while (at < text_.size() && !is_word_byte(text_[at])) ++at;
  while (at < text_.size() && is_word_byte(text_[at])) ++at;
  return at;
}

bool LineBuffer::word_left() {
  const size_t before = cursor_;
  cursor_ = word_start_before(cursor_);
  return cursor_ != before;
}

bool LineBuffer::word_right() {
  const size_t before = cursor_;
  cursor_ = word_end_after(cursor_);
  return cursor_ != before;
}

size_t LineBuffer::start_of_line() const {
  const size_t feed = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return feed == std::string::npos ? 0 : feed + 1;
}

size_t LineBuffer::end_of_line() const { return std::min(text_.find('\n', cursor_), text_.size()); }

void LineBuffer::line_start() { cursor_ = start_of_line(); }

void LineBuffer::line_end() { cursor_ = end_of_line(); }

namespace {

/// The cluster boundary in the line from `start` nearest to `column`, not behind it.
size_t at_column(std::string_view text, size_t start, int column) {
  int width = 0;
  while (start < text.size() && text[start] != '\n') {
    const Cluster cluster = cluster_at(text, start);
    if (width + cluster.width > column) break;
    width += cluster.width;
    start += cluster.length;
  }
  return start;
}

}  // namespace

bool LineBuffer::line_up() {
  const size_t start = start_of_line();
  if (start == 0) return false;
  const int column = text_width(std::string_view(text_).substr(start, cursor_ - start));
  cursor_ = start - 1;
  cursor_ = at_column(text_, start_of_line(), column);
  return true;
}

bool LineBuffer::line_down() {
  const size_t end = end_of_line();
  if (end == text_.size()) return false;
  const size_t start = start_of_line();
  const int column = text_width(std::string_view(text_).substr(start, cursor_ - start));
  cursor_ = at_column(text_, end + 1, column);
  return true;
}

bool LineBuffer::erase_before() {
  if (cursor_ == 0) return false;
  begin(Edit::kErasing);
  const size_t start = cluster_before(text_, cursor_);
  text_.erase(start, cursor_ - start);
  cursor_ = start;
  last_cursor_ = cursor_;
  return true;
}

bool LineBuffer::erase_after() {
  if (cursor_ == text_.size()) return false;
  begin(Edit::kErasing);
  text_.erase(cursor_, cluster_at(text_, cursor_).length);
  last_cursor_ = cursor_;
  return true;
}

void LineBuffer::kill(size_t from, size_t to, Edit direction) {
  if (from == to) return;
  const bool joins =
      (last_ == Edit::kKillForward || last_ == Edit::kKillBack) && last_cursor_ == cursor_;
  begin(direction);
  std::string killed = text_.substr(from, to - from);
  if (joins && !kills_.empty()) {
    std::string& newest = kills_.back();
    newest = direction == Edit::kKillBack ? killed + newest : newest + killed;
  } else {
    if (kills_.size() == kMostKills) kills_.erase(kills_.begin());
    kills_.push_back(std::move(killed));
  }
  text_.erase(from, to - from);
  cursor_ = from;
  last_cursor_ = cursor_;
}

void LineBuffer::kill_to_line_end() {
  const size_t end = end_of_line();
  const bool at_end = end == cursor_ && end < text_.size();
  kill(cursor_, at_end ? end + 1 : end, Edit::kKillForward);
}

void LineBuffer::kill_to_line_start() { kill(start_of_line(), cursor_, Edit::kKillBack); }

void LineBuffer::kill_word_before() {
  size_t at = cursor_;
  while (at > 0 && is_space(text_[at - 1])) --at;
  while (at > 0 && !is_space(text_[at - 1])) --at;
  kill(at, cursor_, Edit::kKillBack);
}

void LineBuffer::kill_name_before() { kill(word_start_before(cursor_), cursor_, Edit::kKillBack); }

void LineBuffer::kill_word_after() { kill(cursor_, word_end_after(cursor_), Edit::kKillForward); }

void LineBuffer::yank() {
  if (kills_.empty()) return;
  begin(Edit::kYank);
  yank_index_ = kills_.size() - 1;
  yank_start_ = cursor_;
  text_.insert(cursor_, kills_[yank_index_]);
  cursor_ += kills_[yank_index_].size();
  last_cursor_ = cursor_;
}

void LineBuffer::yank_next() {
  if (last_ != Edit::kYank || last_cursor_ != cursor_ || kills_.empty()) return;
  yank_index_ = yank_index_ == 0 ? kills_.size() - 1 : yank_index_ - 1;
  text_.replace(yank_start_, cursor_ - yank_start_, kills_[yank_index_]);
  cursor_ = yank_start_ + kills_[yank_index_].size();
  last_cursor_ = cursor_;
}

void LineBuffer::transpose() {
  size_t behind = cursor_;
  if (behind == text_.size() && behind > 0) behind = cluster_before(text_, behind);
  if (behind == 0) return;
  const size_t before = cluster_before(text_, behind);
  const size_t length = cluster_at(text_, behind).length;
  if (text_[before] == '\n' || text_[behind] == '\n') return;
  begin(Edit::kNone);
  const std::string pair = text_.substr(behind, length) + text_.substr(before, behind - before);
  text_.replace(before, pair.size(), pair);
  cursor_ = before + pair.size();
}

void LineBuffer::change_case(Case to) {
  const size_t end = word_end_after(cursor_);
  if (end == cursor_) return;
  begin(Edit::kNone);
  bool first = true;
  for (; cursor_ < end; ++cursor_) {
    char& c = text_[cursor_];
    if (!is_word_byte(c)) continue;
    const bool upper = to == Case::kUpper || (to == Case::kTitle && first);
    first = false;
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
}

void LineBuffer::begin(Edit edit) {
  const bool continues = edit == last_ && edit != Edit::kNone && cursor_ == last_cursor_ &&
                         (edit == Edit::kTyping || edit == Edit::kErasing);
  last_ = edit;
  if (continues) return;
  past_.push_back({text_, cursor_});
  past_bytes_ += text_.size();
  while (past_bytes_ > kMostUndoBytes && past_.size() > 1) {
    past_bytes_ -= past_.front().text.size();
    past_.erase(past_.begin());
  }
}

void LineBuffer::undo() {
  if (past_.empty()) return;
  past_bytes_ -= past_.back().text.size();
  text_ = std::move(past_.back().text);
  cursor_ = past_.back().cursor;
  past_.pop_back();
  last_ = Edit::kNone;
}

}  // namespace chimere::terminal
