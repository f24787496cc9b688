#include "terminal/inline_markdown.h"

#include <algorithm>
#include <cstdint>

namespace chimere::terminal {
namespace {

/// Spans within spans beyond this depth are text.
constexpr int kDeepestSpan = 8;

bool is_blank_at(std::string_view text, size_t at) {
  return at >= text.size() || text[at] == ' ' || text[at] == '\t';
}

bool is_word(char c) {
  return static_cast<uint8_t>(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

bool is_punctuation(char c) { return c > ' ' && c < 0x7F && !is_word(c); }

size_t run_length(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] == text[at]) ++end;
  return end - at;
}

/// Where a span may end.
struct Closing {
  size_t at = std::string_view::npos;  ///< npos: nowhere in this text
  bool undecided = false;              ///< text to come may change it
};

/// The run of exactly `length` marks that closes a code span.
Closing close_code(std::string_view text, size_t from, size_t length, bool complete) {
  for (size_t at = from; at < text.size();) {
    if (text[at] != '`') {
      ++at;
      continue;
    }
    const size_t run = run_length(text, at);
    if (at + run == text.size() && !complete) return {.undecided = true};
    if (run == length) return {.at = at};
    at += run;
  }
  return {.undecided = !complete};
}

/// The run of `length` marks that closes an emphasis.
Closing close_emphasis(std::string_view text, size_t from, char mark, size_t length,
                       bool complete) {
  for (size_t at = from; at < text.size();) {
    const char c = text[at];
    if (c == '\\') {
      at += 2;
    } else if (c == '`') {
      const size_t run = run_length(text, at);
      const Closing code = close_code(text, at + run, run, complete);
      if (code.undecided) return {.undecided = true};
      at = code.at == std::string_view::npos ? at + run : code.at + run;
    } else if (c == mark) {
      const size_t run = run_length(text, at);
      if (at + run == text.size() && !complete) return {.undecided = true};
      const bool inside_word = mark == '_' && at + run < text.size() && is_word(text[at + run]);
      const bool after_text = at > from && !is_blank_at(text, at - 1);
      if (run == length && after_text && !inside_word) return {.at = at};
      at += run;
    } else {
      ++at;
    }
  }
  return {.undecided = !complete};
}

class InlineRenderer {
 public:
  InlineRenderer(std::string_view text, bool complete, std::string_view base, char before,
                 int depth, std::string& out)
      : text_(text), complete_(complete), base_(base), before_(before), depth_(depth), out_(out) {}

  size_t render() {
    while (at_ < text_.size()) {
      if (!step()) break;
    }
    return at_;
  }

 private:
  /// Takes one character or span; false: it must wait.
  bool step() {
    switch (text_[at_]) {
      case '\\':
        return escape();
      case '`':
        return code();
      case '*':
      case '_':
      case '~':
        return emphasis();
      case '[':
        return link(at_);
      case '!':
        if (at_ + 1 == text_.size() && !complete_) return false;
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '[') return link(at_ + 1);
        return literal(1);
      default: {
        size_t end = at_ + 1;
        while (end < text_.size() &&
               std::string_view("\\`*_~[!").find(text_[end]) == std::string_view::npos) {
          ++end;
        }
        return literal(end - at_);
      }
    }
  }

  bool literal(size_t length) {
    out_ += text_.substr(at_, length);
    at_ += length;
    return true;
  }

  /// Waits for the rest of a span, or takes its marker as text.
  bool wait_or_literal(bool undecided, size_t length) { return !undecided && literal(length); }

  /// The text up to the longest span that may begin here.
  std::string_view window() const { return text_.substr(0, at_ + kLongestSpan); }
  /// Whether nothing that follows changes the window.
  bool window_complete() const { return complete_ || text_.size() >= at_ + kLongestSpan; }

  bool escape() {
    if (at_ + 1 == text_.size()) return complete_ && literal(1);
    if (!is_punctuation(text_[at_ + 1])) return literal(1);
    ++at_;
    return literal(1);
  }

  bool code() {
    const std::string_view text = window();
    const size_t run = run_length(text, at_);
    if (at_ + run == text.size()) return wait_or_literal(!window_complete(), run);
    const Closing closing = close_code(text, at_ + run, run, window_complete());
    if (closing.at == std::string_view::npos) return wait_or_literal(closing.undecided, run);
    std::string_view inside = text_.substr(at_ + run, closing.at - at_ - run);
    if (inside.size() > 2 && inside.starts_with(' ') && inside.ends_with(' ')) {
      inside = inside.substr(1, inside.size() - 2);
    }
    styled(style::kCode, inside);
    at_ = closing.at + run;
    return true;
  }

  bool emphasis() {
    const char mark = text_[at_];
    const std::string_view text = window();
    const size_t run = run_length(text, at_);
    if (at_ + run == text.size()) return wait_or_literal(!window_complete(), run);
    const char before = at_ == 0 ? before_ : text_[at_ - 1];
    const bool opens = !is_blank_at(text_, at_ + run) && run <= 3 && depth_ < kDeepestSpan &&
                       (mark != '_' || before == 0 || !is_word(before)) &&
                       (mark != '~' || run == 2);
    if (!opens) return literal(run);
    const Closing closing = close_emphasis(text, at_ + run, mark, run, window_complete());
    if (closing.at == std::string_view::npos) return wait_or_literal(closing.undecided, run);
    std::string inner(base_);
    if (mark == '~') {
      inner += style::kStruck;
    } else {
      if (run >= 2) inner += style::kBold;
      if (run != 2) inner += style::kItalic;
    }
    out_ += inner.substr(base_.size());
    nested(text_.substr(at_ + run, closing.at - at_ - run), inner);
    restore();
    at_ = closing.at + run;
    return true;
  }

  /// [text](address) or ![text](address); `open`: of the bracket. The address is always shown.
  bool link(size_t open) {
    const std::string_view text = window();
    const size_t close = std::min(text.find_first_of("[]", open + 1), text.size());
    const size_t marker = open + 1 - at_;
    if (close >= text.size()) return wait_or_literal(!window_complete(), marker);
    if (text[close] == '[') return literal(marker);
    if (close + 1 == text.size()) return wait_or_literal(!window_complete(), marker);
    if (text[close + 1] != '(') return literal(marker);
    const size_t end = text.find(')', close + 2);
    if (end == std::string_view::npos) return wait_or_literal(!window_complete(), marker);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const std::string_view address = text.substr(close + 2, end - close - 2);
    if (name.empty() || address.empty() || depth_ >= kDeepestSpan) return literal(marker);
    if (name != address) {
      std::string inner(base_);
      inner += style::kUnderline;
      out_ += style::kUnderline;
      nested(name, inner);
      restore();
      out_ += ' ';
      styled(style::kDim, "(" + std::string(address) + ")");
    } else {
      styled(style::kUnderline, address);
    }
    at_ = end + 1;
    return true;
  }

  void nested(std::string_view inside, std::string_view inner) {
    (void)InlineRenderer(inside, true, inner, ' ', depth_ + 1, out_).render();
  }

  void styled(std::string_view code, std::string_view inside) {
    out_ += code;
    out_ += inside;
    restore();
  }

  void restore() {
    out_ += style::kReset;
    out_ += base_;
  }

  std::string_view text_;
  bool complete_;
  std::string_view base_;
  char before_;
  int depth_;
  std::string& out_;
  size_t at_ = 0;
};

}  // namespace

size_t render_inline(std::string_view line, bool complete, std::string_view base, char before,
                     std::string& out) {
  return InlineRenderer(line, complete, base, before, 0, out).render();
}

}  // namespace chimere::terminal
