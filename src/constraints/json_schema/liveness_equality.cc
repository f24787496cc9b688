// Values that must differ from others: uniqueItems, and "not" of composite constants.
#include <algorithm>
#include <utility>

#include "constraints/json_schema/liveness.h"

namespace chimere::constraints::json_schema {

namespace {

/// Levels of properties that the search for different values looks into.
constexpr int kDepth = 4;
/// Counts above this one are taken as any number.
constexpr uint64_t kMostCounted = 2'000;

/// A lower bound of the number of values.
uint64_t count_of(const NumberAlternative& number) {
  if (number.values) return number.values->size();
  const NumberSet& set = number.set;
  if (!set.min || !set.max) return kNoLimit;
  const double range = set.max->to_double() - set.min->to_double();
  double step = set.integer ? 1 : 0;
  for (const Decimal& divisor : set.multiple_of) {
    // A common multiple of all divisors is at most their product.
    step = step == 0 ? divisor.to_double() : step * std::max(1.0, divisor.to_double());
  }
  if (step == 0) return range > 0 ? kNoLimit : 1;
  const double count = range / step - 1.0 - static_cast<double>(set.excluded.size());
  if (count > static_cast<double>(kMostCounted)) return kNoLimit;
  return count < 1 ? 1 : static_cast<uint64_t>(count);
}

}  // namespace

Result<uint64_t> Liveness::count_texts(Regex language) {
  const auto known = texts_.find(language);
  if (known != texts_.end()) return known->second;
  CHIMERE_TRY(const auto texts, expander_.arena().finite(language, kMostCounted));
  const uint64_t count = texts ? texts->size() : kNoLimit;
  texts_.emplace(language, count);
  return count;
}

bool Liveness::has_values(GoalId goal, uint64_t count, int depth, const Probe& probe) {
  if (count == 0 || goal == kAnything) return true;
  if (!probe(goal)) return false;
  if (count == 1) return true;
  const auto expanded = expander_.expand(goal);
  if (!expanded.ok()) return fail(expanded.error());
  const Alternatives& alternatives = **expanded;
  uint64_t simple =
      (alternatives.null ? 1 : 0) + (alternatives.yes ? 1 : 0) + (alternatives.no ? 1 : 0);
  uint64_t numbers = 0;
  for (const NumberAlternative& number : alternatives.numbers) {
    const auto machine = leaves_.numbers({number});
    if (!machine.ok()) return fail(machine.error());
    if (*machine != nullptr) numbers = std::max(numbers, count_of(number));
  }
  if (numbers >= count) return true;
  RegexArena& arena = expander_.arena();
  uint64_t strings = 0;
  for (const StringSet& set : alternatives.strings) {
    const auto bound = [](uint64_t length) {
      return length == kNoLimit
                 ? RegexArena::kUnbounded
                 : static_cast<uint32_t>(std::min<uint64_t>(length, RegexArena::kMaxCount));
    };
    const Regex language =
        arena.intersect(set.language, arena.length(bound(set.min), bound(set.max)));
    if (endless(language) && count < 64) return true;
    const auto texts = count_texts(language);
    if (!texts.ok()) return fail(texts.error());
    if (*texts == kNoLimit) return true;
    strings = std::max(strings, *texts);
  }
  simple += numbers + strings;
  return simple >= count || record_has_values(alternatives, count - simple, depth, probe);
}

bool Liveness::record_has_values(const Alternatives& alternatives, uint64_t count, int depth,
                                 const Probe& probe) {
  if (depth <= 0) return false;
  const std::vector<ValueId> none;
  for (const RecordId id : alternatives.arrays) {
    const ArrayRecord array = expander_.records().array(id);
    if (!array.some.empty()) continue;
    if (!array_possible(id, {0, no_counts(id), &none}, probe)) continue;
    if (array.unique || !array.differs.empty()) continue;
    if (most_items(id, probe) == kNoLimit) return true;
    for (uint64_t i = 0; i < array.min && i < 4; ++i) {
      if (has_values(expander_.item_goal(id, i), count, depth - 1, probe)) return true;
    }
    // Arrays of different lengths are different.
    if (most_items(id, probe) - array.min + 1 >= count) return true;
  }
  for (const RecordId id : alternatives.objects) {
    const ObjectRecord object = expander_.records().object(id);
    if (!object.some.empty() || !object.differs.empty()) continue;
    if (!object_possible(id, {none, 0, &none}, probe)) continue;
    const std::vector<Symbol> must = pending(object, {}, kNone);
    for (const Symbol key : must) {
      if (has_values(expander_.property_goal(id, key), count, depth - 1, probe)) return true;
    }
    if (must.size() >= object.max || !object.dependent.empty()) continue;
    const std::vector<Class> others = classes(id);
    for (const Class& one : others) {
      if (probe(one.goal) && endless(one.names)) return true;
    }
    for (const Symbol key : named_keys(id)) {
      if (std::binary_search(must.begin(), must.end(), key) || !names_allow(id, key)) continue;
      if (has_values(expander_.property_goal(id, key), count, depth - 1, probe)) return true;
    }
  }
  return false;
}

/// Items that differ from each other: every further item up to `min` finds a value whatever the
/// others are.
bool Liveness::unique_possible(RecordId record, const ArrayProgress& progress, const Probe& probe) {
  const ArrayRecord array = expander_.records().array(record);
  const uint64_t uniform = expander_.uniform_from(record);
  if (array.min > kMostCounted && array.min > progress.items) {
    return fail(unsupported("more than 2,000 unique items are not supported"));
  }
  for (uint64_t i = progress.items; i < array.min; ++i) {
    const GoalId goal = expander_.item_goal(record, i);
    // Behind the prefix, the last item is the hardest.
    if (i >= uniform && i + 1 < array.min) continue;
    if (!has_values(goal, i + 1, kDepth, probe)) return false;
  }
  for (const SomeItems& some : array.some) {
    if (some.min == 0) continue;
    const GoalId goal = expander_.conjunction(expander_.item_goal(record, uniform), some.goal);
    if (!has_values(goal, kMostCounted, kDepth, probe)) {
      return fail(
          unsupported("this combination of \"uniqueItems\" and \"contains\" is not supported"));
    }
  }
  return true;
}

std::vector<ValueId> Liveness::equal_so_far(RecordId record, const ObjectProgress& progress) {
  std::vector<ValueId> out;
  for (const ValueId value : expander_.records().object(record).differs) {
    bool equal = true;
    for (size_t i = 0; i < progress.seen.size() && equal; ++i) {
      const ValueId member = expander_.values().member(value, progress.seen[i]);
      equal = member != kNone && member == (*progress.values)[i];
    }
    if (equal) out.push_back(value);
  }
  return out;
}

std::vector<ValueId> Liveness::equal_so_far(RecordId record, const ArrayProgress& progress) {
  std::vector<ValueId> out;
  for (const ValueId value : expander_.records().array(record).differs) {
    const std::vector<ValueId>& items = expander_.values()[value].items;
    if (items.size() >= progress.items &&
        std::equal(progress.values->begin(), progress.values->end(), items.begin())) {
      out.push_back(value);
    }
  }
  return out;
}

bool Liveness::object_can_differ(RecordId record, const ObjectProgress& progress,
                                 const std::vector<Symbol>& pending, const Probe& probe) {
  const ObjectRecord object = expander_.records().object(record);
  std::vector<ValueId> equal = equal_so_far(record, progress);
  const size_t least = progress.seen.size() + pending.size();
  if (object.min <= least) {
    // Without further properties it differs from values that have more or others.
    std::erase_if(equal, [&](ValueId value) {
      const std::vector<Symbol>& keys = expander_.values()[value].keys;
      return keys.size() != least ||
             !std::includes(keys.begin(), keys.end(), pending.begin(), pending.end());
    });
  }
  if (equal.empty()) return true;
  if (object.dependent.empty() && least + object.some.size() < object.max) {
    const std::vector<Class> others = classes(record);
    for (const Class& one : others) {
      if (probe(one.goal) && endless(one.names)) return true;
    }
  }
  if (!object.some.empty()) {
    return fail(unsupported("the negation of an object beside other negations is not supported"));
  }
  const auto is_new = [&](Symbol key) {
    return std::all_of(equal.begin(), equal.end(), [&](ValueId value) {
      return expander_.values().member(value, key) == kNone;
    });
  };
  if (least < object.max && object.dependent.empty()) {
    for (const Symbol key : named_keys(record)) {
      if (!std::binary_search(progress.seen.begin(), progress.seen.end(), key) && is_new(key) &&
          names_allow(record, key) && probe(expander_.property_goal(record, key))) {
        return true;
      }
    }
  }
  return std::any_of(pending.begin(), pending.end(), [&](Symbol key) {
    std::vector<ValueId> values;
    for (const ValueId value : equal) {
      const ValueId member = expander_.values().member(value, key);
      if (member != kNone) values.push_back(member);
    }
    return probe(expander_.conjunction(expander_.property_goal(record, key),
                                       expander_.excluding(std::move(values))));
  });
}

bool Liveness::array_can_differ(RecordId record, const ArrayProgress& progress,
                                const Probe& probe) {
  if (progress.values == nullptr) return true;
  const ArrayRecord array = expander_.records().array(record);
  const std::vector<ValueId> equal = equal_so_far(record, progress);
  if (equal.empty()) return true;
  uint64_t longest = 0;
  bool ends_here = false;
  std::vector<ValueId> next;
  for (const ValueId value : equal) {
    const std::vector<ValueId>& items = expander_.values()[value].items;
    longest = std::max<uint64_t>(longest, items.size());
    ends_here = ends_here || items.size() == progress.items;
    if (items.size() > progress.items) next.push_back(items[progress.items]);
  }
  const GoalId different = expander_.excluding(std::move(next));
  if (array.some.empty() && !array.unique) {
    if (!ends_here && progress.items >= array.min) return true;
    const uint64_t most = most_items(record, probe);
    if (most > longest) return true;
    return progress.items < most &&
           probe(expander_.conjunction(expander_.item_goal(record, progress.items), different));
  }
  // With further conditions: the same record without the inequality ends here, becomes longer than
  // the others, or its next item differs.
  ArrayRecord free = array;
  free.differs.clear();
  const RecordId alone = expander_.records().array(free);
  if (!ends_here && complete_array(alone, progress)) return true;
  free.min = std::max(free.min, longest + 1);
  if (free.min <= free.max &&
      array_possible(expander_.records().array(std::move(free)), progress, probe)) {
    return true;
  }
  if (progress.items >= array.max) return false;
  const std::vector<Outcome> outcomes = outcomes_at(alone, progress);
  return std::ranges::any_of(outcomes, [&](const Outcome& outcome) {
    GoalId goal = expander_.conjunction(outcome.goal, different);
    if (array.unique) {
      goal = expander_.conjunction(goal, expander_.excluding(*progress.values));
    }
    return probe(goal) &&
           array_possible(alone, {progress.items + 1, outcome.after, nullptr}, probe);
  });
}

}  // namespace chimere::constraints::json_schema
