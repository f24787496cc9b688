#include "text/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace chimere::text {
namespace {

constexpr std::string_view kOpenTag = kReasoningOpen;
constexpr std::string_view kCloseTag = kReasoningClose;
constexpr std::string_view kSpace = " \t\r\n";

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

std::string_view without_trailing_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

/// Length of the longest suffix of `text` that is a proper prefix of `tag`.
size_t overlap(std::string_view text, std::string_view tag) {
  size_t n = std::min(text.size(), tag.size() - 1);
  while (n > 0 && !text.ends_with(tag.substr(0, n))) --n;
  return n;
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(Start start)
    : state_(start == Start::kContent    ? State::kContent
             : start == Start::kMayThink ? State::kUndecided
                                         : State::kThinking) {}

void ReasoningSplitter::decide(bool ended) {
  const std::string_view text = without_leading_space(held_);
  if (text.starts_with(kOpenTag)) {
    held_ = std::string(text.substr(kOpenTag.size()));
    state_ = State::kThinking;
  } else if (ended || !kOpenTag.starts_with(text)) {
    state_ = State::kContent;
  }
}

void ReasoningSplitter::take_reasoning(bool ended, Piece& out) {
  const size_t close = held_.find(kCloseTag);
  const bool closed = close != std::string::npos;
  size_t end = closed ? close : held_.size() - (ended ? 0 : overlap(held_, kCloseTag));
  end = without_trailing_space(std::string_view(held_).substr(0, end)).size();
  std::string_view reasoning = std::string_view(held_).substr(0, end);
  if (!any_reasoning_) reasoning = without_leading_space(reasoning);
  any_reasoning_ |= !reasoning.empty();
  out.reasoning = reasoning;
  held_.erase(0, closed ? close + kCloseTag.size() : end);
  if (closed) state_ = State::kBetween;
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  Piece out;
  if (state_ == State::kUndecided) decide(false);
  if (state_ == State::kThinking) take_reasoning(false, out);
  if (state_ == State::kBetween) {
    held_ = std::string(without_leading_space(held_));
    if (!held_.empty()) state_ = State::kContent;
  }
  if (state_ == State::kContent) out.content = std::exchange(held_, "");
  return out;
}

ReasoningSplitter::Piece ReasoningSplitter::finish() {
  Piece out;
  if (state_ == State::kUndecided) decide(true);
  if (state_ == State::kThinking) take_reasoning(true, out);
  if (state_ == State::kContent) out.content = std::exchange(held_, "");
  return out;
}

ReasoningSplitter::Start reasoning_start(std::string_view source, std::string_view prompt) {
  using Start = ReasoningSplitter::Start;
  if (source.find(kOpenTag) == std::string_view::npos &&
      source.find(kCloseTag) == std::string_view::npos)
    return Start::kContent;
  return without_trailing_space(prompt).ends_with(kOpenTag) ? Start::kThinking : Start::kMayThink;
}

}  // namespace chimere::text
