#include "constraints/constraint_cache.h"

namespace chimere::constraints {

ConstraintCache::ConstraintCache(std::shared_ptr<const TokenTrie> trie, size_t max_bytes)
    : trie_(std::move(trie)), max_bytes_(max_bytes) {}

std::shared_ptr<Constraint> ConstraintCache::find(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

Result<std::shared_ptr<Constraint>> ConstraintCache::get(const ConstraintSpec& spec) {
  std::string key = spec.key();
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(key)) return known;
  }
  CHIMERE_TRY(auto made, Constraint::compile(spec, trie_));
  const std::lock_guard lock(mutex_);
  if (auto known = find(key)) return known;  // another thread was faster
  entries_.emplace_front(std::move(key), made);
  by_key_.emplace(entries_.front().first, entries_.begin());
  evict();
  return made;
}

/// Drops what was not used for longest. Requests keep the constraints that they use.
void ConstraintCache::evict() {
  size_t bytes = 0;
  size_t kept = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += entry->first.size() + entry->second->memory();
    // The one that is used now stays in any case.
    if (kept > 0 && (bytes > max_bytes_ || kept >= kMaxConstraints)) {
      by_key_.erase(entry->first);
      entry = entries_.erase(entry);
    } else {
      ++kept;
      ++entry;
    }
  }
}

size_t ConstraintCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace chimere::constraints
