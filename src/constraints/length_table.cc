#include "constraints/length_table.h"

#include <algorithm>
#include <map>
#include <utility>

namespace chimere::constraints {

Result<LengthTable> LengthTable::create(RegexArena& arena, Regex language, bool lower_bound) {
  LengthTable table(arena);
  // Upper bounds alone only need the shortest texts.
  if (lower_bound && !arena.lengths(language)) CHIMERE_CHECK_OK(table.tabulate(language));
  return table;
}

Status LengthTable::tabulate(Regex language) {
  const Error refusal = unsupported(
      "the lengths that a pattern allows are too irregular to combine with minLength and "
      "maxLength; state the length in the pattern or drop one of the bounds");
  std::vector<Regex> states;
  std::vector<std::vector<uint32_t>> targets;
  const auto visit = [&](Regex regex) {
    const auto [it, added] = index_.try_emplace(regex, static_cast<uint32_t>(states.size()));
    if (added) states.push_back(regex);
    return it->second;
  };
  visit(language);
  uint64_t edges = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > kMaxStates) return refusal;
    std::vector<Regex> next;
    for (const RegexArena::Segment& segment : arena_->segments(states[i])) {
      next.push_back(segment.target);
    }
    std::ranges::sort(next);
    next.erase(std::ranges::unique(next).begin(), next.end());
    std::vector<uint32_t>& row = targets.emplace_back();
    for (const Regex target : next) {
      if (arena_->alive(target)) row.push_back(visit(target));
    }
    edges += row.size() + 1;
  }
  const size_t words = (states.size() + 63) / 64;
  std::vector<uint64_t> row(words);
  for (size_t i = 0; i < states.size(); ++i) {
    if (arena_->accepts(states[i])) row[i / 64] |= uint64_t{1} << (i % 64);
  }
  std::map<std::vector<uint64_t>, size_t> seen;
  for (uint64_t work = 0; work < kMaxWork; work += edges + words) {
    const auto [it, added] = seen.try_emplace(row, ends_after_.size());
    if (!added) {
      period_ = ends_after_.size() - it->second;
      return {};
    }
    ends_after_.push_back(row);
    std::vector<uint64_t> next(words);
    for (size_t i = 0; i < states.size(); ++i) {
      const bool reaches = std::ranges::any_of(
          targets[i], [&](uint32_t t) { return (row[t / 64] >> (t % 64) & 1) != 0; });
      if (reaches) next[i / 64] |= uint64_t{1} << (i % 64);
    }
    row = std::move(next);
  }
  return refusal;
}

bool LengthTable::tabulated(uint32_t state, uint64_t low, uint64_t high) const {
  const size_t rows = ends_after_.size();
  const size_t prefix = rows - period_;
  size_t at = low < rows ? low : prefix + (low - prefix) % period_;
  for (uint64_t length = low, tries = 0; length <= high && tries <= rows; ++length, ++tries) {
    if ((ends_after_[at][state / 64] >> (state % 64) & 1) != 0) return true;
    if (++at == rows) at = prefix;
  }
  return false;
}

bool LengthTable::meets(Regex derivative, uint64_t low, uint64_t high) {
  const uint64_t shortest = arena_->shortest(derivative);
  if (shortest == UINT64_MAX || shortest > high || low > high) return false;
  if (shortest >= low) return true;
  if (period_ != 0) {
    const auto it = index_.find(derivative);
    return it != index_.end() && tabulated(it->second, low, high);
  }
  if (const auto lengths = arena_->lengths(derivative)) return lengths->meets(low, high);
  // The structure told the lengths of the whole language, but not those of this part of it.
  LengthTable table(*arena_);
  return table.tabulate(derivative).ok() && table.meets(derivative, low, high);
}

size_t LengthTable::memory() const {
  return index_.size() * 32 +
         (ends_after_.empty() ? 0 : ends_after_.size() * (ends_after_[0].size() * 8 + 24));
}

}  // namespace chimere::constraints
