// A machine with the token masks of its states, shared by the generations of a constraint.
#ifndef CHIMERE_CONSTRAINTS_AUTOMATON_H_
#define CHIMERE_CONSTRAINTS_AUTOMATON_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "constraints/leaf_mask.h"
#include "constraints/machine.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {

/// A machine's states as a Matcher uses them. Thread-safe: every call holds a lock.
class Automaton {
 public:
  Automaton(std::unique_ptr<Machine> machine, std::shared_ptr<const TokenTrie> trie);

  const TokenTrie& trie() const { return *trie_; }
  State start();
  /// The state after `bytes`; kDead if no text continues so.
  State read(State state, std::string_view bytes);
  bool accepts(State state);
  /// Whether no text continues.
  bool ends(State state);
  /// Bytes that follow in every text, at most `limit`. With `habitual`, where only white space
  /// or an escape leaves a choice: a space after a colon or comma if one may stand there, otherwise
  /// none; no escape.
  /// Ends before the symbol of a control token, or is the symbol.
  std::string forced(State state, size_t limit, bool habitual);
  /// Length of the beginning of `bytes`, which follow the state, that no token reaches into that
  /// ends behind them.
  size_t settled(State state, std::string_view bytes);
  /// Fills trie().mask_words() words. Errors: those of status(); the mask is then not valid.
  Status mask(State state, std::span<uint32_t> mask);
  /// Whether every token that does not end a generation is allowed.
  bool unconstrained(State state);
  /// kOutOfMemory if the states have outgrown their memory; kUnsupported if a state took too much
  /// work. No new states may be made then.
  Status status();
  size_t memory();

 private:
  /// The mask of a state: `leaf` with tokens added, then removed, then added.
  struct Entry {
    std::shared_ptr<const LeafMask> leaf;
    std::vector<int32_t> added;
    std::vector<int32_t> removed;
    std::vector<int32_t> added_last;
    bool accepts = false;
    bool everything = false;
  };
  /// The innermost machine that reads the next bytes.
  struct Leaf {
    Machine* machine = nullptr;
    State state = kDead;
    bool uniform = true;
    bool overlaps = false;
    bool last = true;
    std::vector<std::string> exceptions;
  };

  Status status_unlocked();
  const Entry& entry(State state);
  Entry compute(State state);
  std::optional<Leaf> leaf_of(State state);
  std::shared_ptr<const LeafMask> leaf_mask(Machine& machine, State state);
  Entry compute_without_leaf(State state);
  void add_uniform_exits(State state, Leaf& leaf, Entry& entry);
  void add_every_exit(State state, Entry& entry);
  void add_exceptions(State state, const Leaf& leaf, Entry& entry);
  /// Adds the tokens below a node of a trie that the machine allows from a state, without the
  /// node's own. `first`: restricts the first byte.
  void walk(const ByteTrie& trie, uint32_t node, State state, const ByteSet& first,
            std::vector<int32_t>& tokens);
  /// Whether the machine allows a token below a node of the vocabulary from a state.
  bool any_below(uint32_t node, State state);
  State read_unlocked(State state, std::string_view bytes);
  std::string path(const LeafMask::Exit& exit) const;

  struct Level {
    uint32_t end = 0;
    State state = kDead;
    bool all = true;  ///< no restriction by `bytes`
    ByteSet bytes;
  };

  mutable Mutex mutex_;
  std::unique_ptr<Machine> machine_;
  std::shared_ptr<const TokenTrie> trie_;
  std::unordered_map<State, Entry> entries_;
  size_t entry_bytes_ = 0;
  std::map<std::pair<Machine*, State>, std::shared_ptr<const LeafMask>> leaves_;
  size_t leaf_bytes_ = 0;
  std::vector<Level> levels_;  ///< scratch of walk()
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_AUTOMATON_H_
