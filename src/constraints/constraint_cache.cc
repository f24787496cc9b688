#include "constraints/constraint_cache.h"

namespace chimere::constraints {

ConstraintCache::ConstraintCache(std::shared_ptr<const TokenTrie> trie, size_t max_bytes)
    : trie_(std::move(trie)), max_bytes_(max_bytes) {}

std::optional<ConstraintCache::Compiled> ConstraintCache::find(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

Result<std::shared_ptr<Constraint>> ConstraintCache::get(const ConstraintSpec& spec,
                                                         const std::function<void()>& when_slow) {
  std::string key = spec.key();
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(key)) {
      if (!known->ok() || (**known)->memory() <= kMaxConstraintBytes) return *std::move(known);
      by_key_.erase(by_key_.find(key));
      entries_.pop_front();  // where find() has put it
    }
  }
  Compiled made = Constraint::compile(spec, trie_, when_slow);
  const std::lock_guard lock(mutex_);
  if (auto known = find(key)) return *std::move(known);  // another thread was faster
  entries_.emplace_front(std::move(key), made);
  by_key_.emplace(entries_.front().first, entries_.begin());
  evict();
  return made;
}

/// Drops what was not used for longest; refusals displace no constraints. Requests keep the
/// constraints that they use.
void ConstraintCache::evict() {
  constexpr size_t kShareOfRefusals = 16;
  struct Kept {
    size_t bytes = 0;
    size_t entries = 0;
  };
  Kept constraints;
  Kept refusals;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const Compiled& compiled = entry->second;
    const size_t bytes = entry->first.size() +
                         (compiled.ok() ? (*compiled)->memory() : compiled.error().message.size());
    Kept& kept = compiled.ok() ? constraints : refusals;
    const size_t most_bytes = compiled.ok() ? max_bytes_ : max_bytes_ / kShareOfRefusals;
    const size_t most_entries = compiled.ok() ? kMaxConstraints : kMaxRefusals;
    kept.bytes += bytes;
    // The one that is used now stays in any case.
    const bool newest = compiled.ok() ? kept.entries == 0 : entry == entries_.begin();
    if (!newest && (kept.bytes > most_bytes || kept.entries >= most_entries)) {
      by_key_.erase(entry->first);
      entry = entries_.erase(entry);
    } else {
      ++kept.entries;
      ++entry;
    }
  }
}

size_t ConstraintCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace chimere::constraints
