#include "terminal/editor.h"

#include <algorithm>
#include <utility>

#include "terminal/cells.h"

namespace chimere::terminal {
namespace {

/// Completions that are listed.
constexpr size_t kMostListed = 20;

std::string common_prefix(const std::vector<Candidate>& candidates) {
  std::string prefix = candidates.front().text;
  for (const Candidate& c : candidates) {
    size_t equal = 0;
    while (equal < prefix.size() && equal < c.text.size() && prefix[equal] == c.text[equal]) {
      ++equal;
    }
    prefix.resize(equal);
  }
  // Not within a character.
  while (!prefix.empty() && clean_text(prefix) != prefix) prefix.pop_back();
  return prefix;
}

std::vector<std::string> listing(const std::vector<Candidate>& candidates) {
  int width = 0;
  for (const Candidate& c : candidates) width = std::max(width, text_width(visible(c.text)));
  std::vector<std::string> lines;
  for (const Candidate& c : candidates) {
    if (lines.size() == kMostListed) {
      lines.push_back("... and " + std::to_string(candidates.size() - kMostListed) + " more");
      break;
    }
    std::string line = visible(c.text);
    if (!c.help.empty()) {
      line.append(static_cast<size_t>(width - text_width(line)) + 2, ' ');
      line += visible(c.help);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Pastes beyond these are folded.
constexpr std::ptrdiff_t kMostLines = 10;
constexpr size_t kMostBytes = 1000;

/// A fold is a character of plane 16, which is for private use and has no meaning in texts: the
/// only characters whose UTF-8 begins with this byte.
constexpr char kFold = '\xf4';
constexpr size_t kFoldBytes = 4;
constexpr size_t kMostFolds = 0xfffe;

std::string fold_character(size_t index) {
  const auto part = [&](int shift) {
    return static_cast<char>(0x80U | ((index >> shift) & 0x3fU));
  };
  return {kFold, part(12), part(6), part(0)};
}

size_t fold_index(std::string_view character) {
  size_t index = 0;
  for (const char c : character.substr(1))
    index = index << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return index;
}

/// A text from outside, without characters that are folds.
std::string without_folds(std::string_view text) {
  std::string out(text);
  for (size_t at = 0; (at = out.find(kFold, at)) != std::string::npos;) {
    out.replace(at, kFoldBytes, "\xef\xbf\xbd");  // U+FFFD
  }
  return out;
}

/// Replaces each fold by what the function makes of its text.
template <typename Function>
std::string unfolded(std::string_view text, const std::vector<std::string>& folds,
                     const Function& replacement) {
  std::string out;
  while (true) {
    const size_t fold = std::min(text.find(kFold), text.size());
    out += text.substr(0, fold);
    text.remove_prefix(fold);
    if (text.empty()) return out;
    const size_t index = fold_index(text.substr(0, kFoldBytes));
    if (index < folds.size()) out += replacement(folds[index]);
    text.remove_prefix(std::min(kFoldBytes, text.size()));
  }
}

std::string fold_note(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto lines = std::ranges::count(text, '\n') + 1;
  if (lines > 1) return "[pasted " + std::to_string(lines) + " lines]";
  const auto characters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  return "[pasted " + std::to_string(characters) + " characters]";
}

}  // namespace

std::string Editor::text() const {
  return unfolded(buffer_.text(), folds_, [](const std::string& fold) { return fold; });
}

Editor::Shown Editor::shown() const {
  const std::string_view text = buffer_.text();
  Shown out{unfolded(text.substr(0, buffer_.cursor()), folds_, fold_note)};
  out.cursor = out.text.size();
  out.text += unfolded(text.substr(buffer_.cursor()), folds_, fold_note);
  return out;
}

void Editor::replace_text(std::string_view text) { buffer_.set(without_folds(text)); }

void Editor::paste(std::string_view text) {
  const std::string_view body = text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0));
  const bool is_long = text.size() > kMostBytes || std::ranges::count(body, '\n') + 1 > kMostLines;
  if (!is_long || folds_.size() == kMostFolds) {
    buffer_.insert(without_folds(text));
    return;
  }
  buffer_.insert(fold_character(folds_.size()));
  folds_.emplace_back(text);
}

void Editor::start(std::string_view text) {
  buffer_.clear();
  if (!text.empty()) buffer_.insert(without_folds(text));
  history_index_.reset();
  own_text_.clear();
  search_.reset();
  notes_.clear();
  interrupted_ = false;
  prefix_ = false;
}

std::string Editor::search_prompt() const {
  if (!search_) return "";
  return std::string(search_->failed ? "(no match" : "(search") + ": " + visible(search_->query) +
         ") ";
}

Editor::Action Editor::handle(const KeyEvent& event) {
  const bool interrupted = std::exchange(interrupted_, false);
  notes_.clear();
  if (search_) {
    Action action = Action::kNone;
    if (handle_search(event, action)) return action;
  }
  if (std::exchange(prefix_, false)) {
    return event.ctrl && event.text == "e" ? Action::kOpenEditor : Action::kNone;
  }
  switch (event.key) {
    case Key::kCharacter:
      if (event.ctrl && event.text == "c") {
        interrupted_ = interrupted;
        return interrupt();
      }
      if (event.ctrl && !event.alt && event.text.size() == 1) return handle_control(event.text[0]);
      if (event.alt && event.text.size() == 1 && handle_alt(event.text[0])) break;
      if (!event.ctrl && !event.alt) buffer_.insert(without_folds(event.text));
      break;
    case Key::kPaste:
      paste(event.text);
      break;
    case Key::kEnter:
      return enter(event);
    case Key::kTab:
      complete();
      break;
    case Key::kBackspace:
      if (event.alt || event.ctrl) {
        buffer_.kill_name_before();
      } else {
        buffer_.erase_before();
      }
      break;
    case Key::kDelete:
      if (event.alt || event.ctrl) {
        buffer_.kill_word_after();
      } else {
        buffer_.erase_after();
      }
      break;
    case Key::kLeft:
      (void)(event.alt || event.ctrl ? buffer_.word_left() : buffer_.left());
      break;
    case Key::kRight:
      (void)(event.alt || event.ctrl ? buffer_.word_right() : buffer_.right());
      break;
    case Key::kUp:
      if (!buffer_.line_up()) older();
      break;
    case Key::kDown:
      if (!buffer_.line_down()) newer();
      break;
    case Key::kHome:
      if (event.ctrl) {
        buffer_.text_start();
      } else {
        buffer_.line_start();
      }
      break;
    case Key::kEnd:
      if (event.ctrl) {
        buffer_.text_end();
      } else {
        buffer_.line_end();
      }
      break;
    default:
      break;
  }
  return Action::kNone;
}

Editor::Action Editor::interrupt() {
  if (!buffer_.empty()) {
    start();
    return Action::kNone;
  }
  if (interrupted_) return Action::kLeave;
  interrupted_ = true;
  notes_ = {"Ctrl-C again, or Ctrl-D, leaves the chat."};
  return Action::kNone;
}

Editor::Action Editor::enter(const KeyEvent& event) {
  if (event.alt || event.shift || event.ctrl) {
    buffer_.insert("\n");
    return Action::kNone;
  }
  const std::string& text = buffer_.text();
  if (buffer_.cursor() == text.size() && text.ends_with('\\')) {
    buffer_.replace_before_cursor(text.size() - 1, "\n");
    return Action::kNone;
  }
  buffer_.text_end();
  return Action::kSubmit;
}

Editor::Action Editor::handle_control(char letter) {
  switch (letter) {
    case 'a':
      buffer_.line_start();
      break;
    case 'b':
      buffer_.left();
      break;
    case 'd':
      if (buffer_.empty()) return Action::kLeave;
      buffer_.erase_after();
      break;
    case 'e':
      buffer_.line_end();
      break;
    case 'f':
      buffer_.right();
      break;
    case 'k':
      buffer_.kill_to_line_end();
      break;
    case 'l':
      return Action::kClear;
    case 'n':
      if (!buffer_.line_down()) newer();
      break;
    case 'p':
      if (!buffer_.line_up()) older();
      break;
    case 'r':
    case 's':
      search_ = {.query = "", .index = history_->entries().size(), .original = buffer_.text()};
      break;
    case 't':
      buffer_.transpose();
      break;
    case 'u':
      buffer_.kill_to_line_start();
      break;
    case 'w':
      buffer_.kill_word_before();
      break;
    case 'x':
      prefix_ = true;
      break;
    case 'y':
      buffer_.yank();
      break;
    case 'z':
      return Action::kSuspend;
    case '_':
      buffer_.undo();
      break;
    default:
      break;
  }
  return Action::kNone;
}

bool Editor::handle_alt(char letter) {
  switch (letter) {
    case 'b':
      buffer_.word_left();
      return true;
    case 'f':
      buffer_.word_right();
      return true;
    case 'd':
      buffer_.kill_word_after();
      return true;
    case 'y':
      buffer_.yank_next();
      return true;
    case 'u':
      buffer_.change_case(LineBuffer::Case::kUpper);
      return true;
    case 'l':
      buffer_.change_case(LineBuffer::Case::kLower);
      return true;
    case 'c':
      buffer_.change_case(LineBuffer::Case::kTitle);
      return true;
    case '<':
      buffer_.text_start();
      return true;
    case '>':
      buffer_.text_end();
      return true;
    default:
      return false;
  }
}

void Editor::older() {
  const auto& entries = history_->entries();
  const size_t index = history_index_.value_or(entries.size());
  if (index == 0) return;
  if (!history_index_) own_text_ = buffer_.text();
  history_index_ = index - 1;
  replace_text(entries[index - 1]);
}

void Editor::newer() {
  if (!history_index_) return;
  const auto& entries = history_->entries();
  if (*history_index_ + 1 < entries.size()) {
    replace_text(entries[++*history_index_]);
    return;
  }
  history_index_.reset();
  buffer_.set(own_text_);
}

void Editor::find(size_t from) {
  const auto& entries = history_->entries();
  for (size_t index = std::min(from, entries.size()); index > 0; --index) {
    if (entries[index - 1].find(search_->query) == std::string::npos) continue;
    search_->index = index - 1;
    search_->failed = false;
    replace_text(entries[index - 1]);
    return;
  }
  search_->failed = true;
}

bool Editor::handle_search(const KeyEvent& event, Action& action) {
  const bool plain = event.key == Key::kCharacter && !event.ctrl && !event.alt;
  if (plain || event.key == Key::kPaste) {
    search_->query += event.text;
    find(search_->index + 1);
    return true;
  }
  if (event.key == Key::kBackspace) {
    std::string& query = search_->query;
    if (!query.empty()) query.resize(cluster_before(query, query.size()));
    find(history_->entries().size());
    return true;
  }
  if (event.ctrl && event.text == "r") {
    if (!search_->query.empty()) find(search_->index);
    return true;
  }
  if (event.ctrl && event.text == "s") {
    const auto& entries = history_->entries();
    for (size_t index = search_->index + 1; index < entries.size(); ++index) {
      if (entries[index].find(search_->query) == std::string::npos) continue;
      search_->index = index;
      search_->failed = false;
      replace_text(entries[index]);
      break;
    }
    return true;
  }
  if ((event.ctrl && (event.text == "g" || event.text == "c"))) {
    buffer_.set(search_->original);
    search_.reset();
    return true;
  }
  // Any other key ends the search and then does what it does.
  if (search_->index < history_->entries().size()) history_index_ = search_->index;
  own_text_ = search_->original;
  search_.reset();
  if (event.key == Key::kEscape) return true;
  action = Action::kNone;
  return false;
}

void Editor::complete() {
  if (!completer_) return;
  const Completions found =
      completer_(std::string_view(buffer_.text()).substr(0, buffer_.cursor()));
  if (found.candidates.empty() || found.begin > buffer_.cursor()) return;
  if (found.candidates.size() == 1) {
    const Candidate& only = found.candidates.front();
    buffer_.replace_before_cursor(found.begin, only.text + (only.finished ? " " : ""));
    return;
  }
  const std::string prefix = common_prefix(found.candidates);
  if (prefix.size() > buffer_.cursor() - found.begin) {
    buffer_.replace_before_cursor(found.begin, prefix);
  }
  notes_ = listing(found.candidates);
}

}  // namespace chimere::terminal
