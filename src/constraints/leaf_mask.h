// Token masks of machines without their surroundings: computed once for all constraints of a
// vocabulary, or once for a machine.
#ifndef CHIMERE_CONSTRAINTS_LEAF_MASK_H_
#define CHIMERE_CONSTRAINTS_LEAF_MASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "constraints/byte_trie.h"
#include "constraints/machine.h"

namespace chimere::constraints {

/// What a machine says about all tokens of a vocabulary in one of its states.
struct LeafMask {
  /// A text of the machine that is the beginning of tokens.
  struct Exit {
    uint32_t node = 0;   ///< of the vocabulary's trie
    uint32_t depth = 0;  ///< its length
  };
  /// The exits that lead to one accepting state.
  struct ExitGroup {
    State state = kDead;
    std::vector<Exit> exits;  ///< the shortest first
    ByteTrie suffixes;  ///< what tokens have behind these exits, where the machine cannot read it
    ByteTrie continuations;  ///< and where it can
  };

  std::vector<uint32_t> inside;  ///< bitset of tokens that the machine reads completely
  bool everything = false;       ///< it reads every token that does not end a generation
  bool accepts = false;          ///< the state itself accepts; no exit of that length is listed
  /// By accepting state; empty if it was not asked for or would be larger than kMaxExitNodes.
  std::vector<ExitGroup> groups;
  bool groups_known = false;
  /// Most nodes of the trie behind exits, for suffixes and for continuations.
  static constexpr size_t kMaxExitNodes = 50'000;

  size_t memory() const;
};

/// Walks the trie of a vocabulary from a state. `mask_words`: length of the bitset. Takes a few
/// nanoseconds for each node that the machine reaches.
LeafMask compute_leaf_mask(Machine& machine, State state, const ByteTrie& trie, size_t mask_words,
                           bool with_groups);

/// Masks by Machine::shared_key(). Bounded in bytes. Thread-safe.
class LeafMasks {
 public:
  std::shared_ptr<const LeafMask> find(uint64_t key) const;
  void insert(uint64_t key, const std::shared_ptr<const LeafMask>& mask);

 private:
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const LeafMask>> masks_;
  size_t bytes_ = 0;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LEAF_MASK_H_
