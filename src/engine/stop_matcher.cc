#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

size_t leading_space(std::string_view text) {
  return std::min(text.find_first_not_of(kWhiteSpace), text.size());
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, Start start, text::ReasoningTags tags)
    : stops_(std::move(stops)),
      tags_(std::move(tags)),
      state_(start == Start::kContent    ? State::kAnswer
             : start == Start::kMayThink ? State::kUndecided
                                         : State::kReasoning) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

void StopMatcher::begin_reasoning() { state_ = State::kReasoning; }

void StopMatcher::end_reasoning(std::string& out) {
  if (state_ != State::kReasoning) return;
  release(held_.size(), out);
  state_ = State::kBetween;
}

void StopMatcher::skip(std::string_view text) {
  if (state_ == State::kAnswer) return;
  held_ = text;
  std::string passed;
  pass_reasoning(false, passed);
  held_.clear();
}

void StopMatcher::push(std::string_view text, std::string& out) {
  if (matched_) return;
  if (stops_.empty()) {
    out += text;
    return;
  }
  held_ += text;
  if (state_ != State::kAnswer) pass_reasoning(false, out);
  if (state_ == State::kAnswer) match_answer(out);
}

void StopMatcher::pass_reasoning(bool ended, std::string& out) {
  if (state_ == State::kUndecided) {
    const std::string_view begin = std::string_view(held_).substr(leading_space(held_));
    const std::string_view open = tags_.open.text;
    const std::string_view answer = tags_.answer_open;
    if (!open.empty() && begin.starts_with(open)) {
      state_ = State::kReasoning;
    } else if (!answer.empty() && begin.starts_with(answer)) {
      state_ = State::kBetween;
    } else if (ended || (!open.starts_with(begin) && !answer.starts_with(begin))) {
      state_ = State::kAnswer;
    }
  }
  if (state_ == State::kReasoning) {
    const std::string& close = tags_.close.text;
    const size_t end = close.empty() ? std::string::npos : held_.find(close);
    if (end == std::string::npos) {
      release(held_.size() - (ended ? 0 : overlap(close)), out);
    } else {
      release(end + close.size(), out);
      state_ = State::kBetween;
    }
  }
  if (state_ == State::kBetween) {
    release(leading_space(held_), out);
    const std::string& answer = tags_.answer_open;
    if (!answer.empty() && held_.starts_with(answer)) {
      release(answer.size(), out);
      state_ = State::kAnswer;
    } else if (!held_.empty() && (ended || !answer.starts_with(held_))) {
      state_ = State::kAnswer;
    }
  }
}

void StopMatcher::match_answer(std::string& out) {
  size_t end = std::string::npos;  // of the match
  size_t begin = held_.size();
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) {
      end = stop_end;
      begin = at;
      match_ = stop;
    }
  }
  matched_ = end != std::string::npos;
  if (!matched_) {
    for (const std::string& stop : stops_) begin = std::min(begin, held_.size() - overlap(stop));
  }
  release(begin, out);
}

void StopMatcher::release(size_t n, std::string& out) {
  out.append(held_, 0, n);
  held_.erase(0, n);
}

size_t StopMatcher::overlap(std::string_view text) const {
  for (size_t n = std::min(std::max<size_t>(text.size(), 1) - 1, held_.size()); n > 0; --n) {
    if (std::string_view(held_).ends_with(text.substr(0, n))) return n;
  }
  return 0;
}

std::string StopMatcher::finish() {
  std::string out;
  if (matched_) return out;
  if (state_ != State::kAnswer) {
    pass_reasoning(true, out);
    if (state_ == State::kAnswer) match_answer(out);
  }
  if (!matched_) out += std::exchange(held_, "");
  return out;
}

}  // namespace chimere::engine
