#include "engine/speculation/suffix_automaton.h"

namespace chimere::engine {
namespace {

/// Number of suffix states that are updated with a new position; shorter suffixes keep an older
/// one, which serves as well.
constexpr int kUpdatedStates = 16;

}  // namespace

SuffixAutomaton::SuffixAutomaton() { add_state(0, -1); }

int32_t SuffixAutomaton::follow(int32_t state, int32_t token) const {
  const auto it = targets_.find(key(state, token));
  return it == targets_.end() ? -1 : it->second;
}

void SuffixAutomaton::connect(int32_t from, int32_t token, int32_t to) {
  const auto [it, added] = targets_.insert_or_assign(key(from, token), to);
  if (!added) return;
  edges_.push_back({token, at(from).first_edge});
  at(from).first_edge = static_cast<int32_t>(edges_.size()) - 1;
}

int32_t SuffixAutomaton::add_state(int32_t length, int64_t end) {
  states_.push_back({length, -1, end, -1});
  return static_cast<int32_t>(states_.size()) - 1;
}

/// Splits `to`, reached from `from`: it also contains longer strings that do not end at the new end
/// of the text, so the shorter ones get a state of their own.
int32_t SuffixAutomaton::split(int32_t from, int32_t token, int32_t to) {
  const int32_t copy = add_state(at(from).length + 1, at(to).end);
  for (int32_t e = at(to).first_edge; e >= 0; e = edges_[static_cast<size_t>(e)].next) {
    const int32_t t = edges_[static_cast<size_t>(e)].token;
    connect(copy, t, follow(to, t));
  }
  at(copy).link = at(to).link;
  at(to).link = copy;
  for (int32_t p = from; p >= 0 && follow(p, token) == to; p = at(p).link) connect(p, token, copy);
  return copy;
}

void SuffixAutomaton::push(int32_t token) {
  const int64_t end = size_++;
  const int32_t current = add_state(static_cast<int32_t>(size_), end);
  int32_t p = last_;
  for (; p >= 0 && follow(p, token) < 0; p = at(p).link) connect(p, token, current);
  if (p < 0) {
    at(current).link = 0;
  } else {
    const int32_t to = follow(p, token);
    const bool whole = at(to).length == at(p).length + 1;
    const int32_t link = whole ? to : split(p, token, to);
    at(current).link = link;
  }
  last_ = current;
  const int32_t suffix = at(current).link;
  match_length_ = at(suffix).length;
  match_end_ = at(suffix).end;
  int32_t s = suffix;
  for (int i = 0; i < kUpdatedStates && s > 0; ++i, s = at(s).link) at(s).end = end;
}

}  // namespace chimere::engine
