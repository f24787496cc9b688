#include "text/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace chimere::text {
namespace {

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

ReasoningSplitter::ReasoningSplitter(Start start, ReasoningTags tags)
    : tags_(std::move(tags)),
      state_(start == Start::kContent    ? State::kContent
             : start == Start::kMayThink ? State::kUndecided
                                         : State::kThinking) {
  if (tags_.open.text.empty() || tags_.close.text.empty()) state_ = State::kContent;
}

void ReasoningSplitter::decide(bool ended) {
  const std::string_view text = without_leading_space(held_);
  const std::string_view open = tags_.open.text;
  const std::string_view answer = tags_.answer_open;
  if (text.starts_with(open)) {
    held_ = std::string(text.substr(open.size()));
    state_ = State::kThinking;
  } else if (!answer.empty() && text.starts_with(answer)) {
    state_ = State::kBetween;
  } else if (ended || (!open.starts_with(text) && !answer.starts_with(text))) {
    state_ = State::kContent;
  }
}

void ReasoningSplitter::take_reasoning(bool ended, Piece& out) {
  const std::string& tag = tags_.close.text;
  const size_t close = held_.find(tag);
  const bool closed = close != std::string::npos;
  size_t end = closed ? close : held_.size() - (ended ? 0 : overlap(held_, tag));
  end = without_trailing_space(std::string_view(held_).substr(0, end)).size();
  std::string_view reasoning = std::string_view(held_).substr(0, end);
  if (!any_reasoning_) reasoning = without_leading_space(reasoning);
  any_reasoning_ |= !reasoning.empty();
  out.reasoning = reasoning;
  held_.erase(0, closed ? close + tag.size() : end);
  if (closed) state_ = State::kBetween;
}

void ReasoningSplitter::begin_answer(bool ended) {
  held_ = std::string(without_leading_space(held_));
  if (held_.empty()) return;
  const std::string& open = tags_.answer_open;
  if (!open.empty() && held_.starts_with(open)) {
    held_.erase(0, open.size());
    state_ = State::kAnswer;
  } else if (ended || !open.starts_with(held_)) {
    state_ = State::kContent;
  }
}

void ReasoningSplitter::take_answer(bool ended, Piece& out) {
  if (!any_answer_) held_ = std::string(without_leading_space(held_));
  any_answer_ |= !held_.empty();
  const std::string& tag = tags_.answer_close;
  const size_t close = held_.find(tag);
  const bool closed = close != std::string::npos;
  const size_t end = closed ? close : held_.size() - (ended ? 0 : overlap(held_, tag));
  out.content = held_.substr(0, end);
  held_.erase(0, closed ? close + tag.size() : end);
  if (closed) state_ = State::kContent;
}

ReasoningSplitter::Piece ReasoningSplitter::advance(bool ended) {
  Piece out;
  if (state_ == State::kUndecided) decide(ended);
  if (state_ == State::kThinking) take_reasoning(ended, out);
  if (state_ == State::kBetween) begin_answer(ended);
  if (state_ == State::kAnswer) take_answer(ended, out);
  if (state_ == State::kContent) out.content += std::exchange(held_, "");
  return out;
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  held_ += text;
  return advance(false);
}

void ReasoningSplitter::skip(std::string_view text) {
  (void)push(text);
  // finish() drops the white space at the end of reasoning, to which more may belong.
  if (state_ != State::kThinking || !without_leading_space(held_).empty()) held_.clear();
}

ReasoningSplitter::Piece ReasoningSplitter::finish() { return advance(true); }

}  // namespace chimere::text
