// The automaton of a context-free grammar over bytes.
#ifndef CHIMERE_CONSTRAINTS_EARLEY_MACHINE_H_
#define CHIMERE_CONSTRAINTS_EARLEY_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "constraints/flat_map.h"
#include "constraints/machine.h"
#include "constraints/productions.h"

namespace chimere::constraints {

/// Any context-free grammar: ambiguous, left- or right-recursive, with empty rules. A state is an
/// Earley set, interned by its items. The origin of an item is what the end of its rule continues:
/// the part of a set that waits for the rule, interned as well. So equal futures have equal states,
/// repetitions lead back to the states that they began with, and a copy is a number.
///
/// Earley (1970); empty rules as in Aycock and Horspool (2002), right recursion in constant time as
/// in Leo (1991). Repetitions are counted in the items.
///
/// Items are units of work (count_work()).
class EarleyMachine final : public Machine {
 public:
  explicit EarleyMachine(Productions productions);

  State start() override { return start_; }
  State next(State state, uint8_t byte) override;
  bool accepts(State state) override { return state != kDead && sets_[state].accepts; }
  std::optional<Inner> inner(State state) override;
  State after(State state, State accepting) override;
  ByteSet first_bytes(State state) override;
  void count_work(WorkMeter& meter) override { meter_ = &meter; }
  Status status() const override;
  size_t memory() const override;

 private:
  /// A production with a mark before one of its positions.
  struct Item {
    uint32_t position = 0;
    uint32_t count = 0;   ///< finished repetitions of the position; not counted beyond `min` of
                          ///< unbounded ones
    uint32_t inside = 0;  ///< state inside the position's terminal; 0: before it
    uint32_t origin = 0;  ///< context() in which the production began; kSelf: that of this state
    bool operator==(const Item&) const = default;
    auto operator<=>(const Item&) const = default;
  };
  static constexpr uint32_t kSelf = 0;

  /// Items before terminals, then items before rules, sorted by the rule. A context is a set of
  /// the latter alone.
  struct Set {
    uint32_t first = 0;  ///< in items_
    uint32_t scans = 0;
    uint32_t waits = 0;
    bool accepts = false;
  };
  /// A rule that ended, and where it began.
  struct Completion {
    uint32_t rule = 0;
    uint32_t origin = 0;
    bool operator==(const Completion&) const = default;
  };

  struct SetHash {
    const EarleyMachine* machine;
    size_t operator()(State state) const;
  };
  struct SetEqual {
    const EarleyMachine* machine;
    bool operator()(State a, State b) const;
  };

  std::span<const Item> scans(State state) const;
  std::span<const Item> waits(State state) const;
  std::span<const Item> waits_for(State state, uint32_t rule) const;

  void begin_set();
  void add(const Item& item);
  void enter(uint32_t position, uint32_t origin);
  void advance(Item item, State from);
  State context(State state, uint32_t rule);
  State intern(std::vector<Item>& made, bool accepts);
  void complete(Completion completion);
  Completion last_completion(Completion completion);
  State finish_set();
  State give_up();
  void move_inside(Item moved, State from, State inside);
  void scan(const Item& item, State from, uint8_t byte);
  ByteSet compute_first_bytes(State state);
  bool continues(uint32_t terminal, State inside);

  Productions productions_;
  std::vector<Item> items_;  ///< of all sets
  std::vector<Set> sets_;
  std::unordered_set<State, SetHash, SetEqual> interned_;
  std::vector<std::unique_ptr<ByteSet>> first_bytes_;  ///< by state; null: not computed yet
  FlatMap<State> transitions_;
  FlatMap<State> contexts_;
  FlatMap<Completion> shortcuts_;  ///< of last_completion()
  FlatMap<uint8_t> continues_;
  State start_ = kDead;

  // The set that is being made, and a context.
  std::vector<Item> made_;
  std::vector<Item> context_items_;
  std::vector<uint32_t> context_rules_;
  IndexSet seen_;
  IndexSet completed_;
  std::vector<uint8_t> predicted_;  ///< by rule
  std::vector<uint32_t> predicted_rules_;
  std::vector<Completion> completions_;
  bool accepts_ = false;
  WorkMeter own_meter_;  ///< until count_work(): of one state
  WorkMeter* meter_ = &own_meter_;
  bool has_start_ = true;  ///< the start state took not too much work
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_EARLEY_MACHINE_H_
