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
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "constraints/flat_map.h"
#include "constraints/hash.h"
#include "constraints/leaf_mask.h"
#include "constraints/machine.h"
#include "constraints/token_trie.h"
#include "constraints/work.h"

namespace chimere::constraints {

/// A machine's states as a Matcher uses them. Thread-safe: every call holds a lock. What a call
/// computes is counted in the budget of its generation; where that is exhausted
/// (WorkBudget::status()), the call's result is not valid, and nothing of it is kept.
class Automaton {
 public:
  Automaton(std::unique_ptr<Machine> machine, std::shared_ptr<const TokenTrie> trie);

  const TokenTrie& trie() const { return *trie_; }
  State start();
  /// The state after `bytes`, and its facts unless it is kDead: no text continues so.
  State read(State state, std::string_view bytes, StateFacts& facts, WorkBudget& budget);
  State read(State state, std::string_view bytes, WorkBudget& budget);
  /// Of a state that is not kDead.
  StateFacts facts(State state, WorkBudget& budget);
  /// Bytes that follow in every text, at most `limit`. With `habitual`, where only white space
  /// or an escape leaves a choice: a space after a colon or comma if one may stand there, otherwise
  /// none; no escape.
  /// Ends before the symbol of a control token, or is the symbol.
  std::string forced(State state, size_t limit, bool habitual, WorkBudget& budget);
  /// Where in `bytes`, which follow the state, a token can begin that ends after them; ascending
  /// offsets, the last one is the size of `bytes`.
  std::vector<size_t> last_boundaries(State state, std::string_view bytes, WorkBudget& budget);
  /// Fills trie().mask_words() words. Errors: those of status(), kUnsupported (no token of the
  /// vocabulary begins with a byte that must follow); the mask is then not valid.
  Status mask(State state, std::span<uint32_t> mask, WorkBudget& budget);
  /// The mask of kDead: the tokens that end a generation.
  void mask_of_end(std::span<uint32_t> mask) const;
  /// Whether every token that does not end a generation is allowed.
  bool unconstrained(State state, WorkBudget& budget);
  /// A computation on a thread of its own holds one; other calls wait meanwhile.
  std::shared_ptr<const int> lease() const { return lease_; }
  bool leased() const { return lease_.use_count() > 1; }
  /// kOutOfMemory if the states have outgrown their memory; kUnsupported if a state of a JSON
  /// Schema could not be decided. No new states may be made then.
  Status status();
  size_t memory();

 private:
  /// The mask of a state: `leaf` and `parts` with tokens added, then removed, then added.
  struct Entry {
    std::shared_ptr<const LeafMask> leaf;
    std::vector<std::shared_ptr<const LeafMask>> parts;  ///< of strings that tokens begin
    std::vector<int32_t> added;
    std::vector<int32_t> removed;
    std::vector<int32_t> added_last;
    /// What follows the leaf, which may end here. Its tokens are none of those above.
    std::shared_ptr<const Entry> after;
    bool everything = false;
    size_t memory() const;
  };
  using EntryPointer = std::shared_ptr<const Entry>;
  /// The innermost machine that reads the next bytes.
  struct Leaf {
    Machine* machine = nullptr;
    State state = kDead;
    bool uniform = true;
    bool overlaps = false;
    bool direct = true;     ///< nothing stands between it and the outer machine
    bool compares = false;  ///< Machine::Inner::compares
    std::vector<std::string> exceptions;
  };
  /// A call of a public function: holds the lock and counts the work.
  class Call {
   public:
    Call(Automaton& automaton, WorkBudget& budget);
    ~Call() { budget_.spend(automaton_.meter_); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Automaton& automaton_;
    WorkBudget& budget_;
    std::lock_guard<Mutex> lock_;
    WorkScope scope_;
  };
  /// A state of one of the machines inside.
  struct Outer {
    Machine* machine = nullptr;
    State state = kDead;
  };
  using Key = std::pair<Machine*, State>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return combine(reinterpret_cast<uintptr_t>(key.first), key.second);
    }
  };

  /// `all`: including the memory of the states, which takes a while to count.
  Status status_unlocked(bool all);
  StateFacts facts_unlocked(State state);
  /// The error of a state in which no token is allowed.
  Error no_token(State state);
  std::string forced_unlocked(State state, size_t limit, bool habitual);
  EntryPointer entry(Outer outer);
  Entry compute(Outer outer);
  static std::optional<Leaf> leaf_of(Outer outer);
  std::shared_ptr<const LeafMask> leaf_mask(const Leaf& leaf, TriePosition position);
  Entry compute_without_leaf(Outer outer);
  /// False if it cannot be told: the outer machine has to be walked.
  void add_uniform_exits(Outer outer, const Leaf& leaf, const LeafMask& mask, TriePosition position,
                         Entry& entry);
  State after_exits(Outer outer, const Leaf& leaf, const LeafMask::ExitGroup& group,
                    TriePosition position);
  void add_tails(Outer outer, const Leaf& leaf, const LeafMask::ExitGroup& group, State after,
                 TriePosition position, Entry& entry);
  void add_what_follows(Outer outer, const Leaf& leaf, Entry& entry);
  void add_every_exit(Outer outer, Entry& entry);
  void add_exceptions(Outer outer, const Leaf& leaf, TriePosition position, Entry& entry);
  /// Adds the string, or the like, that is read behind a node, and what follows it. False, and no
  /// change, if it cannot be had more cheaply than by walking.
  bool add_part(Outer outer, TriePosition position, Entry& entry);
  /// The tails that the machine allows from a state.
  std::shared_ptr<const TailSet> tails(Outer outer);
  /// Adds the tokens below a node of a trie that the machine allows from a state, without the
  /// node's own. `first`: restricts the first byte. With `entry`, the trie is the vocabulary's and
  /// strings are added to it as parts.
  void walk(const ByteTrie& trie, uint32_t node, Outer outer, const ByteSet& first,
            std::vector<int32_t>& tokens, Entry* entry = nullptr);
  /// Whether the machine allows a token below a node of the vocabulary from a state.
  bool any_below(uint32_t node, State state);
  State read_unlocked(Outer outer, std::string_view bytes);
  std::string_view path(const LeafMask::Exit& exit, TriePosition position) const;
  static void apply(const Entry& entry, bool fresh, std::span<uint32_t> mask);
  bool allows_everything(const Entry& entry) const;
  void drop_if_large();

  struct Level {
    uint32_t end = 0;
    State state = kDead;
    bool all = true;  ///< no restriction by `bytes`
    ByteSet bytes;
  };

  std::shared_ptr<const int> lease_ = std::make_shared<const int>(0);
  mutable Mutex mutex_;
  WorkMeter meter_;  ///< of the call in progress
  std::unique_ptr<Machine> machine_;
  std::shared_ptr<const TokenTrie> trie_;
  std::unordered_map<Key, EntryPointer, KeyHash> entries_;
  std::unordered_map<Key, std::shared_ptr<const TailSet>, KeyHash> tails_;
  size_t entry_bytes_ = 0;  ///< of both
  std::map<std::tuple<Machine*, State, uint32_t>, std::shared_ptr<const LeafMask>> leaves_;
  size_t leaf_bytes_ = 0;
  FlatMap<StateFacts> facts_;  ///< by state
  bool too_large_ = false;     ///< the states have outgrown their memory
  uint32_t unchecked_ = 0;     ///< masks since the states were last counted
  std::vector<Level> levels_;  ///< of the walks in progress
  int following_ = 0;          ///< entries in progress that are Entry::after of another
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_AUTOMATON_H_
