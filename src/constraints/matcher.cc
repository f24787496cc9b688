#include <algorithm>
#include <utility>

#include "constraints/automaton.h"
#include "constraints/constraint.h"

namespace chimere::constraints {

Matcher::Matcher(std::shared_ptr<Automaton> automaton) : automaton_(std::move(automaton)) {
  states_.push_back(automaton_->start());
}

bool Matcher::unconstrained() {
  if (!status_.ok()) return false;
  if (unconstrained_state_ != state() || state() == kDead) {
    unconstrained_ = automaton_->unconstrained(state(), budget_);
    if (!within_budget()) return false;
    unconstrained_state_ = state();
  }
  return unconstrained_;
}

bool Matcher::within_budget() {
  Status status = budget_.status();
  if (status.ok()) return true;
  fail(std::move(status));
  return false;
}

const StateFacts& Matcher::facts() {
  if (facts_state_ != state()) {
    facts_ = automaton_->facts(state(), budget_);
    if (!within_budget()) facts_ = {.accepts = facts_.accepts};
    facts_state_ = state();
  }
  return facts_;
}

std::span<const uint32_t> Matcher::mask() {
  if (mask_valid_ && mask_state_ == state()) return mask_;
  mask_.resize(automaton_->trie().mask_words());
  if (status_.ok()) {
    status_ = automaton_->mask(state(), mask_, budget_);
    if (within_budget() && !status_.ok() && automaton_->status().ok()) stuck_ = states_.size();
  }
  if (!status_.ok()) automaton_->mask_of_end(mask_);
  mask_state_ = state();
  mask_valid_ = true;
  return mask_;
}

bool Matcher::prepare(uint64_t units) {
  budget_.begin_limit(units);
  if (!unconstrained() && !budget_.put_off()) (void)mask();
  if (!budget_.end_limit()) return true;
  unconstrained_state_ = kDead;
  mask_valid_ = false;
  return false;
}

std::shared_ptr<const int> Matcher::lease() const { return automaton_->lease(); }
bool Matcher::leased() const { return automaton_->leased(); }

bool Matcher::allows(int32_t token) {
  const TokenTrie& trie = automaton_->trie();
  if (trie.is_end_of_generation(token)) return complete() || state() == kDead || !status_.ok();
  const std::string_view bytes = trie.bytes(token);
  if (!status_.ok() || bytes.empty()) return false;
  const State after = automaton_->read(state(), bytes, budget_);
  return within_budget() && after != kDead;
}

void Matcher::fail(Status status) {
  if (status.ok()) return;
  status_ = std::move(status);
  mask_valid_ = false;
}

bool Matcher::accept(int32_t token) {
  const TokenTrie& trie = automaton_->trie();
  if (trie.is_end_of_generation(token)) {
    if (!allows(token)) return false;
    states_.push_back(kDead);
    return true;
  }
  const std::string_view bytes = trie.bytes(token);
  if (bytes.empty() || !status_.ok()) return false;
  const State after = automaton_->read(state(), bytes, facts_, budget_);
  if (!within_budget()) {
    facts_state_ = kDead;  // facts_ may be half made
    return false;
  }
  if (after == kDead) {
    fail(automaton_->status());
    return false;
  }
  facts_state_ = after;
  states_.push_back(after);
  budget_.add_token();
  return true;
}

void Matcher::rollback(int32_t tokens) {
  const size_t kept = states_.size() - static_cast<size_t>(std::clamp(tokens, 0, accepted()));
  states_.resize(kept);
  if (kept >= stuck_) return;
  // No token could follow a draft that is taken back.
  stuck_ = 0;
  status_ = {};
  mask_valid_ = false;
}

bool Matcher::complete() { return state() == kDead || facts().accepts; }

bool Matcher::finished() { return state() == kDead || (status_.ok() && facts().ends); }

std::string Matcher::forced(size_t limit) {
  if (state() == kDead || !status_.ok() || !facts().forced) return {};
  std::string text = automaton_->forced(state(), limit, false, budget_);
  if (!within_budget()) return {};
  if (!text.empty() && static_cast<uint8_t>(text[0]) == kTokenByte) text.clear();
  return text;
}

std::string Matcher::expected(size_t limit) {
  if (state() == kDead || !status_.ok() || !facts().expected) return {};
  std::string text = automaton_->forced(state(), limit, true, budget_);
  return within_budget() ? text : std::string();
}

std::vector<size_t> Matcher::last_boundaries(std::string_view bytes) {
  if (!status_.ok()) return {};
  std::vector<size_t> boundaries = automaton_->last_boundaries(state(), bytes, budget_);
  if (!within_budget()) boundaries.clear();
  return boundaries;
}

}  // namespace chimere::constraints
