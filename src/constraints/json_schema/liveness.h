// Which schemas have documents, and what can still be completed.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_LIVENESS_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_LIVENESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "constraints/json_schema/expansion.h"
#include "constraints/json_schema/leaves.h"

namespace chimere::constraints::json_schema {

/// A possible result of the value of a property or of an item: if it satisfies `goal`, the record
/// continues with the progress `after`.
struct Outcome {
  GoalId goal = kAnything;
  uint32_t after = 0;
};

/// What an object has so far, as far as completing it depends on it.
struct ObjectProgress {
  const std::vector<Symbol>& seen;  ///< keys, ascending
  uint32_t done = 0;                ///< bit i: ObjectRecord::some[i] is satisfied
  /// The values of `seen`; only looked at if the record has ObjectRecord::differs.
  const std::vector<ValueId>* values = nullptr;
};

/// What an array has so far.
struct ArrayProgress {
  uint64_t items = 0;
  uint32_t counts = 0;  ///< of Liveness::lists(): items so far for each ArrayRecord::some
  /// The items; only looked at for ArrayRecord::unique and differs.
  const std::vector<ValueId>* values = nullptr;
};

/// Decides which goals have a value at all (the least fixpoint over recursive schemas) and which
/// records can still be completed. What cannot be decided counts as impossible and, until
/// begin_document(), makes status() an error.
class Liveness {
 public:
  Liveness(Expander& expander, Leaves& leaves) : expander_(expander), leaves_(leaves) {}

  /// Whether some value satisfies the goal.
  bool inhabited(GoalId goal);
  /// The first error that was met.
  const Status& status() const { return status_; }
  /// From now on, what cannot be decided is not offered, and is no error.
  void begin_document();
  /// What an object of the record needs could not be decided: an error while compiling, afterwards
  /// the reason of a dead end.
  void undecided(RecordId record, Error error);
  /// Nothing can follow a state that was offered: makes status() the error of what could not be
  /// decided.
  void report_dead_end();

  /// Whether an object of the record can be completed.
  bool completable(RecordId record, const ObjectProgress& progress);
  /// The ways to continue with a key that is not seen; none if the key is not allowed.
  std::vector<Outcome> property_outcomes(RecordId record, const ObjectProgress& progress,
                                         Symbol key);
  /// Whether the object may end.
  bool complete(RecordId record, const ObjectProgress& progress);
  /// Keys that must still come when `seen`, and `next` unless it is kNone, are there.
  std::vector<Symbol> pending(const ObjectRecord& record, const std::vector<Symbol>& seen,
                              Symbol next) const;

  /// The keys of a record that do not depend on progress.
  struct Keys {
    std::vector<Symbol> named;    ///< keys with a goal of their own, or required; ascending
    std::vector<Symbol> allowed;  ///< those of them whose goal has a value, ordered by text
    Regex others = 0;             ///< the other keys
    bool all_others = false;      ///< every other key is allowed
  };
  const Keys& keys(RecordId record);
  /// What a property of an empty object can have to satisfy, whatever its name and the conditions
  /// of ObjectRecord::some that it counts for.
  std::vector<GoalId> property_goals(RecordId record);
  /// The keys of keys().allowed that are allowed now, ordered by text.
  std::vector<Symbol> allowed_keys(RecordId record, const ObjectProgress& progress);
  /// Whether every key that is neither named nor seen is allowed now.
  bool all_other_keys(RecordId record, const ObjectProgress& progress);
  /// Whether all keys but special_keys() have the same goal and count for the same.
  bool uniform_others(RecordId record);
  /// keys().named and those that conditions of ObjectRecord::some list.
  const std::vector<Symbol>& special_keys(RecordId record);
  /// Whether all keys that are not named and that are allowed have the same goal.
  bool one_class(RecordId record);
  /// Divides the keys that are not named by their goals; empty if more than the goals differs.
  std::vector<Regex> key_classes(RecordId record);
  /// The other keys that are allowed now: a language that contains none of `keys().named`.
  Regex other_keys(RecordId record, const ObjectProgress& progress);

  bool completable_array(RecordId record, const ArrayProgress& progress);
  /// What an item at an index can have to satisfy, for any of the conditions of ArrayRecord::some.
  std::vector<GoalId> item_goals(RecordId record, uint64_t at);
  /// The ways to continue with one more item; none if there may be none.
  std::vector<Outcome> item_outcomes(RecordId record, const ArrayProgress& progress);
  /// Whether the array may end.
  bool complete_array(RecordId record, const ArrayProgress& progress);
  /// The counts of an empty array.
  uint32_t no_counts(RecordId record);
  Lists& lists() { return lists_; }

 private:
  using Probe = std::function<bool(GoalId)>;
  struct Class {
    Regex names = 0;
    GoalId goal = kAnything;
  };

  /// Where errors are reported: the goal or else the record that is looked at.
  struct Where {
    GoalId goal = kAnything;
    std::optional<Expander::RecordKind> kind;
    RecordId record = 0;
  };
  /// Sets `where_` while it lives; a goal that is looked at stays.
  class Looking {
   public:
    Looking(Liveness& liveness, GoalId goal) : Looking(liveness, Where{goal, {}, 0}) {}
    Looking(Liveness& liveness, Expander::RecordKind kind, RecordId record)
        : Looking(liveness, liveness.where_.goal != kAnything ? liveness.where_
                                                              : Where{kAnything, kind, record}) {}
    ~Looking() { liveness_.where_ = before_; }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;

   private:
    Looking(Liveness& liveness, const Where& where)
        : liveness_(liveness), before_(std::exchange(liveness.where_, where)) {}
    Liveness& liveness_;
    Where before_;
  };
  bool fail(Error error);
  bool possible(GoalId goal, const Probe& probe);
  bool object_possible(RecordId record, const ObjectProgress& progress, const Probe& probe);
  bool array_possible(RecordId record, const ArrayProgress& progress, const Probe& probe);
  bool unique_possible(RecordId record, const ArrayProgress& progress, const Probe& probe);
  bool array_can_differ(RecordId record, const ArrayProgress& progress, const Probe& probe);
  bool object_can_differ(RecordId record, const ObjectProgress& progress,
                         const std::vector<Symbol>& pending, const Probe& probe);
  /// The values of ObjectRecord::differs that the object agrees with so far.
  std::vector<ValueId> equal_so_far(RecordId record, const ObjectProgress& progress);
  std::vector<ValueId> equal_so_far(RecordId record, const ArrayProgress& progress);
  /// Whether a goal has at least that many values; false if that is not easy to tell.
  bool has_values(GoalId goal, uint64_t count, int depth, const Probe& probe);
  bool record_has_values(const Alternatives& alternatives, uint64_t count, int depth,
                         const Probe& probe);
  bool endless(Regex language);
  /// The number of texts of the language; kNoLimit: more than are counted, 2,000.
  Result<uint64_t> count_texts(Regex language);
  bool uniform_possible(const ArrayRecord& array, GoalId item, uint64_t items, uint64_t most,
                        const std::vector<uint32_t>& counts, const Probe& probe);
  std::vector<Outcome> outcomes_at(RecordId record, const ArrayProgress& progress);
  /// Items that an array can have at most because the schema of the next has no value.
  uint64_t most_items(RecordId record, const Probe& probe);
  bool enough_keys(RecordId record, uint64_t wanted, const Probe& probe);
  /// Whether keys can be added to those seen and `pending`, each with the keys that it requires,
  /// until the object has between ObjectRecord::min and max. `others`: further keys that are
  /// neither named nor seen count as there.
  bool can_reach_count(RecordId record, const ObjectProgress& progress,
                       const std::vector<Symbol>& pending, uint64_t others, const Probe& probe);
  bool can_satisfy(RecordId record, const ObjectProgress& progress,
                   const std::vector<Symbol>& pending, uint64_t slots, const Probe& probe);
  bool names_allow(RecordId record, Symbol key);
  std::vector<Symbol> named_keys(RecordId record) const;
  const std::vector<Class>& classes(RecordId record);
  Regex names_language(RecordId record);

  Expander& expander_;
  Leaves& leaves_;
  Lists lists_;
  Status status_;
  bool in_document_ = false;
  Status undecided_;  ///< the first thing that could not be decided in the document
  Where where_;
  std::unordered_map<GoalId, bool> known_;
  std::unordered_map<RecordId, std::vector<Class>> classes_;
  std::unordered_map<RecordId, Keys> keys_;
  std::unordered_map<RecordId, Regex> names_;
  struct Special {
    std::vector<Symbol> keys;
    bool listed = true;  ///< those of ObjectRecord::some could be listed
  };
  const Special& special(RecordId record);
  std::unordered_map<RecordId, Special> special_;
  std::unordered_map<Regex, bool> endless_;
  std::unordered_map<Regex, uint64_t> texts_;  ///< count_texts()
  std::map<std::tuple<RecordId, uint64_t, uint32_t>, bool> arrays_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_LIVENESS_H_
