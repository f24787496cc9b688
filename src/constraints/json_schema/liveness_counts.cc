// How many properties an object can get where "dependentRequired" brings several at once.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "constraints/json_schema/liveness.h"

namespace chimere::constraints::json_schema {

namespace {

/// Keys that require others: all sets of them are tried.
constexpr size_t kMostRequiring = 12;
/// Conditions whose combinations are listed.
constexpr size_t kListedConditions = 6;
/// Names that are counted.
constexpr uint64_t kMostNames = 4'096;

}  // namespace

bool Liveness::can_reach_count(RecordId record, const ObjectProgress& progress,
                               const std::vector<Symbol>& pending, uint64_t others,
                               const Probe& probe) {
  const ObjectRecord object = expander_.records().object(record);
  if (object.min > object.max) return false;
  std::vector<Symbol> have;
  std::ranges::set_union(progress.seen, pending, std::back_inserter(have));
  const uint64_t there = have.size() + others;
  if (there > object.max) return false;
  if (there >= object.min) return true;

  // Keys that come alone, and those that bring others.
  const auto possible = [&](Symbol key) {
    return names_allow(record, key) && probe(expander_.property_goal(record, key));
  };
  const std::vector<Symbol> named = named_keys(record);
  std::vector<Symbol> alone;
  std::vector<std::vector<Symbol>> requiring;  // each with what it brings, ascending
  for (const Symbol key : named) {
    if (std::ranges::binary_search(have, key)) continue;
    std::vector<Symbol> group = this->pending(object, have, key);
    if (!possible(key) || !std::ranges::all_of(group, possible)) continue;
    if (group.empty()) {
      alone.push_back(key);
    } else {
      group.insert(std::ranges::lower_bound(group, key), key);
      requiring.push_back(std::move(group));
    }
  }
  uint64_t unnamed = 0;
  const std::vector<Class> all = classes(record);
  for (const Class& one : all) {
    if (unnamed >= object.min || !probe(one.goal)) continue;
    const auto finite = expander_.arena().finite(
        one.names, static_cast<size_t>(std::min<uint64_t>(object.min, kMostNames)));
    if (!finite.ok()) return fail(finite.error());
    unnamed += finite->has_value() ? (*finite)->size() : object.min;
  }
  if (unnamed < object.min) {
    const auto unknown = [&](Symbol key) { return !std::ranges::binary_search(named, key); };
    const auto used = static_cast<uint64_t>(std::ranges::count_if(progress.seen, unknown)) + others;
    unnamed -= std::min(unnamed, used);
  }
  if (there + alone.size() + unnamed >= object.min) return true;
  if (requiring.size() > kMostRequiring) {
    return fail(
        unsupported("\"minProperties\" and \"maxProperties\" with so many keys of "
                    "\"dependentRequired\" are not supported"));
  }
  const std::function<bool(size_t, const std::vector<Symbol>&)> reach =
      [&](size_t at, const std::vector<Symbol>& keys) {
        const uint64_t count = keys.size() + others;
        if (count > object.max) return false;
        const auto left = static_cast<uint64_t>(std::ranges::count_if(
            alone, [&](Symbol key) { return !std::ranges::binary_search(keys, key); }));
        if (count + left + unnamed >= object.min) return true;
        for (size_t i = at; i < requiring.size(); ++i) {
          std::vector<Symbol> more;
          std::ranges::set_union(keys, requiring[i], std::back_inserter(more));
          if (more.size() > keys.size() && reach(i + 1, more)) return true;
        }
        return false;
      };
  return reach(0, have);
}

std::vector<GoalId> Liveness::property_goals(RecordId record) {
  const std::vector<Symbol> allowed = keys(record).allowed;
  std::vector<SomeProperty> some = expander_.records().object(record).some;
  if (some.size() > kListedConditions) some.clear();  // such an object is refused
  std::vector<GoalId> out;
  const auto add = [&](GoalId goal, const std::function<bool(const SomeProperty&)>& counts) {
    std::vector<GoalId> goals = {goal};
    for (const SomeProperty& one : some) {
      if (!counts(one)) continue;
      for (size_t i = goals.size(); i-- > 0;) {
        goals.push_back(expander_.conjunction(goals[i], one.goal));
      }
    }
    out.insert(out.end(), goals.begin(), goals.end());
  };
  for (const Symbol key : allowed) {
    add(expander_.property_goal(record, key),
        [&](const SomeProperty& one) { return expander_.matches(one.names, key); });
  }
  const std::vector<ScopeId> scopes = expander_.records().object(record).scopes;
  const bool plain = some.empty() && std::ranges::all_of(scopes, [&](ScopeId id) {
                       const ObjectScope& scope = expander_.records().object_scope(id);
                       return scope.patterns.empty() && scope.rest == kAnything;
                     });
  if (plain) return out;
  RegexArena& arena = expander_.arena();
  const std::vector<Class> all = classes(record);
  for (const Class& one : all) {
    add(one.goal, [&](const SomeProperty& condition) {
      return arena.intersect(one.names, condition.names) != arena.none();
    });
  }
  return out;
}

}  // namespace chimere::constraints::json_schema
