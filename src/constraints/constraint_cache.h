// Compiled constraints by specification.
#ifndef CHIMERE_CONSTRAINTS_CONSTRAINT_CACHE_H_
#define CHIMERE_CONSTRAINTS_CONSTRAINT_CACHE_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"
#include "constraints/constraint.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {

/// The constraints of one vocabulary that were used last, and the specifications that were refused
/// last, bounded in bytes and number. Thread-safe.
class ConstraintCache {
 public:
  static constexpr size_t kMaxConstraints = 256;
  static constexpr size_t kMaxRefusals = 256;
  /// A constraint whose states and masks have grown beyond is compiled anew; generations that run
  /// keep the old one.
  static constexpr size_t kMaxConstraintBytes = size_t{96} << 20;

  /// `max_bytes`: of all constraints that the cache keeps, with their states and masks.
  ConstraintCache(std::shared_ptr<const TokenTrie> trie, size_t max_bytes);

  /// The compiled form of `spec`, of an earlier call or new. Errors: those of
  /// Constraint::compile(), of an earlier call or new: what was refused once is refused at once.
  /// `when_slow`: as for it.
  Result<std::shared_ptr<Constraint>> get(const ConstraintSpec& spec,
                                          const std::function<void()>& when_slow = {});
  const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }
  size_t size() const;  ///< with the refusals

 private:
  using Compiled = Result<std::shared_ptr<Constraint>>;
  using Entry = std::pair<std::string, Compiled>;
  std::optional<Compiled> find(std::string_view key);
  void evict();

  std::shared_ptr<const TokenTrie> trie_;
  size_t max_bytes_;
  mutable Mutex mutex_;
  std::list<Entry> entries_;  ///< the last used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_key_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_CONSTRAINT_CACHE_H_
