// Token masks of machines without their surroundings: computed once for all constraints of a
// vocabulary, or once for a machine.
#ifndef CHIMERE_CONSTRAINTS_LEAF_MASK_H_
#define CHIMERE_CONSTRAINTS_LEAF_MASK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "constraints/byte_trie.h"
#include "constraints/machine.h"
#include "constraints/quote_table.h"
#include "constraints/work.h"

namespace chimere::constraints {

class TokenTrie;

/// What a machine says in one of its states about the tokens of a vocabulary, or about those behind
/// some first bytes.
struct LeafMask {
  /// A text of the machine that is the beginning of tokens.
  struct Exit {
    uint32_t node = 0;   ///< of the vocabulary's trie
    uint32_t depth = 0;  ///< of the node
  };
  /// The exits that lead to one accepting state, if tokens have something behind them.
  struct ExitGroup {
    State state = kDead;
    std::vector<Exit> exits;
    /// What tokens have behind these exits, where the machine cannot read it: after quotes that end
    /// a string, tails of the vocabulary's QuoteTable; after other bytes, a trie.
    TailSet tails;
    ByteTrie suffixes;
  };

  /// Tokens that the machine reads completely: a bitset if they are many, otherwise a list.
  std::vector<uint32_t> bits;
  std::vector<int32_t> tokens;
  bool everything = false;  ///< it reads every token that does not end a generation
  bool accepts = false;     ///< the state itself accepts; no exit of that length is listed
  std::vector<Exit> exits;  ///< all
  /// Empty if they were not asked for or would be larger than kMaxExitNodes.
  std::vector<ExitGroup> groups;
  bool groups_known = false;
  /// Most nodes of the trie behind exits, of all suffixes.
  static constexpr size_t kMaxExitNodes = 50'000;

  size_t memory() const;
};

/// The tokens of which a LeafMask speaks: those below a node of the vocabulary's trie, without its
/// own, which the machine reads from behind the node.
struct TriePosition {
  uint32_t node = 0;
  uint32_t depth = 0;
};

/// Walks the trie of a vocabulary from a state. Takes a few nanoseconds for each node that the
/// machine reaches, but for subtrees of which Machine::stays() says enough. Not complete if
/// `meter`, which the machine counts its work in, is exhausted then.
enum class LeafExits : uint8_t { kNone, kGroups };
LeafMask compute_leaf_mask(Machine& machine, State state, const TokenTrie& trie,
                           TriePosition position, LeafExits exits, WorkMeter& meter);

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LEAF_MASK_H_
