// Fewer records for the same values: products of negations otherwise grow without need.
#include <algorithm>

#include "constraints/json_schema/expansion.h"

namespace chimere::constraints::json_schema {

namespace {

/// Records that are compared with each other.
constexpr size_t kMostCompared = 1'500;
/// Levels that the search for contradictions looks into.
constexpr int kLookInto = 1;

template <typename T>
bool contains_all(const std::vector<T>& large, const std::vector<T>& small) {
  return std::all_of(small.begin(), small.end(), [&](const T& item) {
    return std::find(large.begin(), large.end(), item) != large.end();
  });
}

/// Whether a scope restricts one property only and nothing takes notice of it.
bool is_single(const ObjectScope& scope) {
  return !scope.evaluates && scope.named.size() == 1 && scope.patterns.empty() &&
         scope.rest == kAnything && scope.covers.empty();
}

}  // namespace

/// Whether every object of `stronger` is one of `weaker` because its conditions contain the
/// other's.
bool Expander::implies(const ObjectRecord& weaker, const ObjectRecord& stronger) const {
  return weaker.min <= stronger.min && weaker.max >= stronger.max &&
         weaker.scopes.size() <= stronger.scopes.size() &&
         std::includes(stronger.required.begin(), stronger.required.end(), weaker.required.begin(),
                       weaker.required.end()) &&
         std::includes(stronger.scopes.begin(), stronger.scopes.end(), weaker.scopes.begin(),
                       weaker.scopes.end()) &&
         contains_all(stronger.names, weaker.names) && contains_all(stronger.some, weaker.some) &&
         contains_all(stronger.dependent, weaker.dependent) &&
         contains_all(stronger.differs, weaker.differs);
}

/// The record without conditions that follow from others; kNone if it contradicts itself.
RecordId Expander::simplified(RecordId id) {
  if (const auto found = simplified_.find(id); found != simplified_.end()) return found->second;
  ObjectRecord record = records_.object(id);
  RecordId out = id;
  for (const Symbol key : record.required) {
    if (certainly_empty(property_goal(id, key), kLookInto)) {
      simplified_.emplace(id, kNone);
      return kNone;
    }
  }
  for (size_t i = 0; i < record.scopes.size();) {
    const ObjectScope& scope = records_.object_scope(record.scopes[i]);
    const bool single = is_single(scope);
    const Symbol key = single ? scope.named[0].first : kNone;
    const GoalId goal = single ? scope.named[0].second : kAnything;
    const std::vector<Literal> literals = goals_[goal];
    if (!single || literals.size() != 1 || goal == kNothing) {
      ++i;
      continue;
    }
    ObjectRecord without = record;
    without.scopes.erase(without.scopes.begin() + static_cast<std::ptrdiff_t>(i));
    const RecordId rest = records_.object(without);
    const GoalId negated = this->goal({literals[0] ^ 1});
    if (certainly_empty(conjunction(property_goal(rest, key), negated), kLookInto)) {
      record = std::move(without);
      out = rest;
    } else {
      ++i;
    }
  }
  simplified_.emplace(id, out);
  return out;
}

void Expander::simplify(Alternatives& alternatives) {
  std::vector<RecordId> kept;
  for (const RecordId id : alternatives.objects) {
    const RecordId record = simplified(id);
    if (record != kNone) kept.push_back(record);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  // Where annotations count, a stronger record may be the one that evaluates more.
  if (absorb_ && kept.size() <= kMostCompared) {
    std::vector<bool> dropped(kept.size(), false);
    for (size_t i = 0; i < kept.size(); ++i) {
      for (size_t j = 0; j < kept.size() && !dropped[i]; ++j) {
        if (i == j || dropped[j]) continue;
        dropped[i] = implies(records_.object(kept[j]), records_.object(kept[i]));
      }
    }
    std::vector<RecordId> left;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!dropped[i]) left.push_back(kept[i]);
    }
    kept = std::move(left);
  }
  alternatives.objects = std::move(kept);
}

}  // namespace chimere::constraints::json_schema
