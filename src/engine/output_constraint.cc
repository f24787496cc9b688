#include "engine/output_constraint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "constraints/forced_tokens.h"

namespace chimere::engine {

OutputConstraint::OutputConstraint(constraints::Matcher matcher, const text::Tokenizer& tokenizer,
                                   int64_t vocabulary)
    : matcher_(std::move(matcher)),
      tokenizer_(tokenizer),
      mask_(static_cast<size_t>(kernels::mask_words(vocabulary))) {
  find_certain();
}

void OutputConstraint::reserve(size_t tokens) {
  matcher_.reserve(tokens);
  tokens_.reserve(tokens);
}

bool OutputConstraint::unconstrained() { return !certain() && matcher_.unconstrained(); }

Result<kernels::TokenMask> OutputConstraint::allowed() {
  if (next_certain_ < certain_.size()) {
    std::ranges::fill(mask_, 0);
    const auto token = static_cast<uint32_t>(certain_[next_certain_]);
    mask_[token / 32] = 1U << (token % 32);
    return kernels::TokenMask(mask_);
  }
  const std::span<const uint32_t> mask = matcher_.mask();
  CHIMERE_CHECK_OK(matcher_.status());
  if (mask.size() == mask_.size() && refused_.empty()) return kernels::TokenMask(mask);
  return own_mask(mask);
}

kernels::TokenMask OutputConstraint::own_mask(std::span<const uint32_t> mask) {
  const auto rest =
      std::ranges::copy(mask.first(std::min(mask.size(), mask_.size())), mask_.begin());
  std::fill(rest.out, mask_.end(), 0);
  for (const int32_t token : refused_) {
    const auto t = static_cast<uint32_t>(token);
    mask_[t / 32] &= ~(1U << (t % 32));
  }
  return mask_;
}

bool OutputConstraint::prepare(uint64_t units, const std::function<void(Job)>& post) {
  if (ahead_) {
    if (!ahead_->done) return false;
    matcher_ = std::move(ahead_->matcher);
    ahead_.reset();
    return true;
  }
  if (!certain() && matcher_.leased()) return false;
  if (quick(units)) return true;
  ahead_ = std::make_shared<Ahead>(Ahead{matcher_, matcher_.lease()});
  post([ahead = ahead_] {
    (void)ahead->matcher.prepare(constraints::kWorkPerCall);
    ahead->lease.reset();
    return [ahead] { ahead->done = true; };
  });
  return false;
}

Result<bool> OutputConstraint::accept(int32_t token) {
  if (advance(token)) {
    refused_.clear();
    return true;
  }
  CHIMERE_CHECK_OK(matcher_.status());
  constexpr size_t kMostRefused = 1000;
  if (refused_.size() == kMostRefused || std::ranges::find(refused_, token) != refused_.end()) {
    return invalid_data("The constraint refuses tokens that its mask allows; the last one was " +
                        std::to_string(token) + ".");
  }
  refused_.push_back(token);
  return false;
}

bool OutputConstraint::finished() { return matcher_.finished(); }

std::span<const int32_t> OutputConstraint::expected(int32_t most) {
  expected_.clear();
  const std::string text = matcher_.expected(constraints::kForcedBytes);
  if (!text.empty()) {
    expected_ = constraints::canonical_tokens(matcher_, tokenizer_, tokens_, text,
                                              static_cast<size_t>(most));
  }
  return expected_;
}

bool OutputConstraint::push_draft(int32_t token) {
  if (drafts_ == 0) {
    certain_before_drafts_ = certain_;
    next_before_drafts_ = next_certain_;
  }
  if (!advance(token)) return false;
  ++drafts_;
  return true;
}

void OutputConstraint::drop_drafts() {
  if (drafts_ == 0) return;
  tokens_.resize(tokens_.size() - static_cast<size_t>(drafts_));
  matcher_.rollback(std::exchange(drafts_, 0));
  certain_.swap(certain_before_drafts_);
  next_certain_ = next_before_drafts_;
}

bool OutputConstraint::advance(int32_t token) {
  ahead_.reset();  // of the state before
  const bool is_certain = next_certain_ < certain_.size();
  if (is_certain && certain_[next_certain_] != token) return false;
  if (!matcher_.accept(token)) return false;
  tokens_.push_back(token);
  if (is_certain && ++next_certain_ < certain_.size()) return true;
  find_certain();
  return true;
}

void OutputConstraint::find_certain() {
  certain_.clear();
  next_certain_ = 0;
  const std::string text = matcher_.forced(constraints::kForcedBytes);
  if (text.empty()) return;
  certain_ =
      constraints::canonical_tokens(matcher_, tokenizer_, tokens_, text, constraints::kForcedBytes);
}

}  // namespace chimere::engine
