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
    unconstrained_ = automaton_->unconstrained(state());
    unconstrained_state_ = state();
  }
  return unconstrained_;
}

const StateFacts& Matcher::facts() {
  if (facts_state_ != state()) {
    facts_ = automaton_->facts(state());
    facts_state_ = state();
  }
  return facts_;
}

std::span<const uint32_t> Matcher::mask() {
  if (mask_valid_ && mask_state_ == state()) return mask_;
  mask_.resize(automaton_->trie().mask_words());
  if (status_.ok()) status_ = automaton_->mask(state(), mask_);
  if (!status_.ok()) (void)automaton_->mask(kDead, mask_);  // only the end: this never fails
  mask_state_ = state();
  mask_valid_ = true;
  return mask_;
}

bool Matcher::allows(int32_t token) {
  const TokenTrie& trie = automaton_->trie();
  if (trie.is_end_of_generation(token)) return complete() || state() == kDead || !status_.ok();
  const std::string_view bytes = trie.bytes(token);
  return status_.ok() && !bytes.empty() && automaton_->read(state(), bytes) != kDead;
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
  const State after = automaton_->read(state(), bytes, facts_);
  if (after == kDead) {
    fail(automaton_->status());
    return false;
  }
  facts_state_ = after;
  states_.push_back(after);
  return true;
}

void Matcher::rollback(int32_t tokens) {
  const size_t kept = states_.size() - static_cast<size_t>(std::clamp(tokens, 0, accepted()));
  states_.resize(kept);
}

bool Matcher::complete() { return state() == kDead || facts().accepts; }

bool Matcher::finished() { return state() == kDead || !status_.ok() || facts().ends; }

std::string Matcher::forced(size_t limit) {
  if (state() == kDead || !facts().forced) return {};
  std::string text = automaton_->forced(state(), limit, false);
  if (!text.empty() && static_cast<uint8_t>(text[0]) == kTokenByte) text.clear();
  return text;
}

std::string Matcher::expected(size_t limit) {
  if (state() == kDead || !facts().expected) return {};
  return automaton_->forced(state(), limit, true);
}

std::vector<size_t> Matcher::last_boundaries(std::string_view bytes) {
  return automaton_->last_boundaries(state(), bytes);
}

}  // namespace chimere::constraints
