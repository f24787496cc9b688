// Which arrays can still be completed.
#include <algorithm>
#include <map>
#include <utility>

#include "constraints/json_schema/liveness.h"

namespace chimere::constraints::json_schema {

namespace {

constexpr uint64_t kLongestPrefix = 256;
constexpr size_t kMostConditions = 5;

/// Items that still have to satisfy a condition.
uint64_t needed(const SomeItems& some, uint32_t count) {
  return some.min > count ? some.min - count : 0;
}

/// The count after one more item. Counts that make no difference any more stay the same.
uint32_t counted(const SomeItems& some, uint32_t count) {
  const uint64_t most = some.max == kNoLimit ? some.min : some.max + 1;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{count} + 1, most));
}

}  // namespace

uint32_t Liveness::no_counts(RecordId record) {
  return lists_.intern(std::vector<uint32_t>(expander_.records().array(record).some.size(), 0));
}

uint64_t Liveness::most_items(RecordId record, const Probe& probe) {
  const ArrayRecord& array = expander_.records().array(record);
  const uint64_t uniform = expander_.uniform_from(record);
  // Behind `min`, it does not matter for completing the array.
  for (uint64_t i = 0; i < uniform && i < array.max; ++i) {
    if (!probe(expander_.item_goal(record, i))) return i;
  }
  if (uniform < array.max && !probe(expander_.item_goal(record, uniform))) return uniform;
  return array.max;
}

std::vector<GoalId> Liveness::item_goals(RecordId record, uint64_t at) {
  const size_t conditions = expander_.records().array(record).some.size();
  if (conditions == 0 || conditions > kMostConditions) return {expander_.item_goal(record, at)};
  std::vector<GoalId> out;
  for (const Outcome& outcome : outcomes_at(record, {at, no_counts(record), nullptr})) {
    out.push_back(outcome.goal);
  }
  return out;
}

/// The ways to continue with item number `items`, without looking at what they lead to.
std::vector<Outcome> Liveness::outcomes_at(RecordId record, const ArrayProgress& progress) {
  const Looking looking(*this, Expander::RecordKind::kArray, record);
  const ArrayRecord array = expander_.records().array(record);
  const uint64_t items = progress.items;
  const uint32_t counts = progress.counts;
  const std::vector<uint32_t> before = lists_[counts];
  const GoalId goal = expander_.item_goal(record, items);
  std::vector<uint32_t> applicable;
  for (uint32_t i = 0; i < array.some.size(); ++i) {
    const SomeItems& some = array.some[i];
    const bool matters = some.max != kNoLimit || before[i] < some.min;
    if (some.from <= items && matters) applicable.push_back(i);
  }
  std::vector<Outcome> out;
  for (uint32_t subset = 0; subset < 1U << applicable.size(); ++subset) {
    Outcome outcome = {goal, counts};
    std::vector<uint32_t> after = before;
    bool allowed = true;
    for (size_t i = 0; i < applicable.size(); ++i) {
      const SomeItems& some = array.some[applicable[i]];
      uint32_t& count = after[applicable[i]];
      if ((subset >> i & 1) != 0) {
        count = counted(some, count);
        allowed = allowed && count <= some.max;
        outcome.goal = expander_.conjunction(outcome.goal, some.goal);
      } else if (some.max != kNoLimit) {
        // Items that do not count must not satisfy the condition.
        const std::vector<Literal> literals = expander_.literals(some.goal);
        if (literals.size() > 1) {
          fail(unsupported("this \"maxContains\" is not supported"));
          return {};
        }
        const GoalId negated = literals.empty() ? kNothing : expander_.goal({literals[0] ^ 1});
        outcome.goal = expander_.conjunction(outcome.goal, negated);
      }
    }
    outcome.after = lists_.intern(std::move(after));
    if (allowed && outcome.goal != kNothing) out.push_back(outcome);
  }
  return out;
}

/// Whether an array of `items` items can be completed where all further items have one goal.
bool Liveness::uniform_possible(const ArrayRecord& array, GoalId item, uint64_t items,
                                uint64_t most, const std::vector<uint32_t>& counts,
                                const Probe& probe) {
  const uint64_t rest = most == kNoLimit ? kNoLimit : most - items;
  const uint64_t least = array.min > items ? array.min - items : 0;
  if (array.some.size() == 1) {
    const SomeItems& some = array.some[0];
    const uint64_t need = needed(some, counts[0]);
    if (some.max != kNoLimit && counts[0] > some.max) return false;
    const uint64_t room = some.max == kNoLimit ? kNoLimit : some.max - counts[0];
    const bool with = probe(expander_.conjunction(item, some.goal));
    bool without = probe(item);
    if (some.max != kNoLimit) {
      const std::vector<Literal> literals = expander_.literals(some.goal);
      const GoalId negated = literals.empty()      ? kNothing
                             : literals.size() > 1 ? kNothing
                                                   : expander_.goal({literals[0] ^ 1});
      without = negated != kNothing && probe(expander_.conjunction(item, negated));
    }
    if (without) return need <= room && need <= rest && least <= rest && (need == 0 || with);
    const uint64_t count = std::max(need, least);
    return count <= room && count <= rest && (count == 0 || with);
  }
  uint64_t total = 0;
  uint64_t largest = 0;
  GoalId all = item;
  for (size_t i = 0; i < array.some.size(); ++i) {
    const SomeItems& some = array.some[i];
    if (some.max != kNoLimit) {
      return fail(unsupported("\"maxContains\" beside other conditions is not supported"));
    }
    const uint64_t need = needed(some, counts[i]);
    if (need == 0) continue;
    if (!probe(expander_.conjunction(item, some.goal))) return false;
    all = expander_.conjunction(all, some.goal);
    total += need;
    largest = std::max(largest, need);
  }
  if (least > rest) return false;
  return total <= rest || (largest <= rest && probe(all));
}

bool Liveness::array_possible(RecordId record, const ArrayProgress& progress, const Probe& probe) {
  const Looking looking(*this, Expander::RecordKind::kArray, record);
  const ArrayRecord array = expander_.records().array(record);
  const uint64_t items = progress.items;
  if (array.unique && !unique_possible(record, progress, probe)) return false;
  if (!array.differs.empty() && !array_can_differ(record, progress, probe)) return false;
  if (items > array.max) return false;
  if (array.some.empty() && items >= array.min) return true;
  const uint64_t most = most_items(record, probe);
  if (array.min > most) return false;
  if (array.some.empty()) return true;
  if (array.some.size() > kMostConditions) {
    return fail(unsupported("one array has too many \"contains\""));
  }
  const uint64_t uniform = expander_.uniform_from(record);
  if (uniform > kLongestPrefix) {
    return fail(unsupported("\"contains\" beside a long \"prefixItems\" is not supported"));
  }
  std::map<std::pair<uint64_t, uint32_t>, bool> known;
  const std::function<bool(uint64_t, uint32_t)> can = [&](uint64_t at, uint32_t have) {
    const bool enough = at >= array.min && at <= array.max;
    const std::vector<uint32_t>& now = lists_[have];
    bool counted_enough = true;
    for (size_t i = 0; i < array.some.size(); ++i) {
      counted_enough = counted_enough && now[i] >= array.some[i].min && now[i] <= array.some[i].max;
    }
    if (enough && counted_enough) return true;
    if (at >= uniform || at >= most) {
      if (at > most) return false;
      return uniform_possible(array, expander_.item_goal(record, at), at, most, now, probe);
    }
    const auto [found, added] = known.emplace(std::pair(at, have), false);
    if (!added) return found->second;
    bool possible = false;
    for (const Outcome& outcome : outcomes_at(record, {at, have, nullptr})) {
      possible = (probe(outcome.goal) && can(at + 1, outcome.after)) || possible;
    }
    known[{at, have}] = possible;
    return possible;
  };
  return can(items, progress.counts);
}

bool Liveness::completable_array(RecordId record, const ArrayProgress& progress) {
  const ArrayRecord& array = expander_.records().array(record);
  const Probe probe = [this](GoalId goal) { return inhabited(goal); };
  if (array.unique || !array.differs.empty()) return array_possible(record, progress, probe);
  if (array.some.empty() && progress.items >= array.min) return progress.items <= array.max;
  const uint64_t items = array.some.empty() ? 0 : progress.items;
  const auto key = std::tuple(record, items, progress.counts);
  if (const auto found = arrays_.find(key); found != arrays_.end()) return found->second;
  const bool possible = array_possible(record, {items, progress.counts, nullptr}, probe);
  arrays_.emplace(key, possible);
  return possible;
}

bool Liveness::complete_array(RecordId record, const ArrayProgress& progress) {
  const ArrayRecord& array = expander_.records().array(record);
  if (progress.items < array.min || progress.items > array.max) return false;
  for (size_t i = 0; i < array.some.size(); ++i) {
    const uint32_t count = lists_[progress.counts][i];
    if (count < array.some[i].min || count > array.some[i].max) return false;
  }
  return std::none_of(array.differs.begin(), array.differs.end(), [&](ValueId value) {
    return expander_.values()[value].items == *progress.values;
  });
}

std::vector<Outcome> Liveness::item_outcomes(RecordId record, const ArrayProgress& progress) {
  const ArrayRecord array = expander_.records().array(record);
  if (progress.items >= array.max) return {};
  GoalId excluding = kAnything;
  std::vector<ValueId> values;
  if (array.unique) excluding = expander_.excluding(*progress.values);
  if (!array.differs.empty()) {
    // Items after which the array could not differ from all that it must differ from.
    values = *progress.values;
    values.push_back(kNone);
    std::vector<ValueId> refused;
    for (const ValueId equal : equal_so_far(record, progress)) {
      const JsonValue& json = expander_.values()[equal];
      if (json.items.size() <= progress.items) continue;
      values.back() = json.items[progress.items];
      if (!array_can_differ(record, {progress.items + 1, progress.counts, &values},
                            [this](GoalId goal) { return inhabited(goal); })) {
        refused.push_back(values.back());
      }
    }
    excluding = expander_.conjunction(excluding, expander_.excluding(std::move(refused)));
  }
  const bool special = array.unique || !array.differs.empty();
  std::vector<Outcome> out;
  for (Outcome outcome : outcomes_at(record, progress)) {
    outcome.goal = expander_.conjunction(outcome.goal, excluding);
    if (!inhabited(outcome.goal)) continue;
    // What the conditions on equality need behind this item does not depend on its value.
    bool possible = false;
    if (special) {
      ArrayProgress next = {progress.items + 1, outcome.after, nullptr};
      possible = array_possible(record, next, [this](GoalId goal) { return inhabited(goal); });
    } else {
      possible = completable_array(record, {progress.items + 1, outcome.after, nullptr});
    }
    if (possible) out.push_back(outcome);
  }
  return out;
}

}  // namespace chimere::constraints::json_schema
