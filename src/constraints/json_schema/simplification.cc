// Contradictions, and fewer records for the same values: products of negations otherwise grow
// without need.
#include <algorithm>

#include "constraints/json_number.h"
#include "constraints/json_schema/expansion.h"

namespace chimere::constraints::json_schema {

namespace {

/// Records that are compared with each other.
constexpr size_t kMostCompared = 300;
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

/// For objects of one record; others have none.
Expander::Discriminators Expander::discriminators_of(const Alternatives& alternatives) {
  constexpr size_t kMostWords = 16;
  Discriminators out;
  const bool only_object = alternatives.objects.size() == 1 && alternatives.size() == 1 &&
                           !alternatives.null && !alternatives.yes && !alternatives.no;
  if (!only_object || looking_ >= kContradictionDepth) return out;
  const RecordId id = alternatives.objects[0];
  const std::vector<Symbol> required = records_.object(id).required;
  for (const Symbol key : required) {
    const GoalId goal = property_goal(id, key);
    if (goal == kAnything || goal == kNothing) continue;
    // Only goals that list their values are worth a look.
    const bool listed = std::any_of(goals_[goal].begin(), goals_[goal].end(), [&](Literal literal) {
      return literal % 2 == 0 && schemas_.nodes[literal / 2].has_enum;
    });
    if (!listed) continue;
    ++looking_;
    const auto expanded = expand(goal);
    --looking_;
    if (!expanded.ok()) continue;
    const Alternatives& values = **expanded;
    if (values.null || values.yes || values.no || values.size() != values.strings.size()) continue;
    std::vector<std::string> words;
    bool few = true;
    for (const StringSet& set : values.strings) {
      const auto finite = arena_.finite(set.language, kMostWords);
      few = few && finite.ok() && finite->has_value();
      if (few) words.insert(words.end(), (*finite)->begin(), (*finite)->end());
    }
    if (few) out.emplace(key, std::move(words));
  }
  return out;
}

bool Expander::disjoint(const Alternatives& a, const Alternatives& b, int depth) {
  if ((a.null && b.null) || (a.yes && b.yes) || (a.no && b.no)) return false;
  Alternatives both = a;
  return records_.intersect(both, b) && certainly_empty(both, depth);
}

bool Expander::certainly_empty(const Alternatives& alternatives, int depth) {
  if (alternatives.null || alternatives.yes || alternatives.no) return false;
  for (const StringSet& set : alternatives.strings) {
    const auto empty = arena_.empty(set.language);
    if (!empty.ok() || !*empty) return false;
  }
  for (const NumberAlternative& number : alternatives.numbers) {
    if (number.values) return false;
    const auto machine = NumberMachine::create(number.set);
    if (machine.ok() || machine.error().code != Error::Code::kInvalidArgument) return false;
  }
  for (const RecordId id : alternatives.objects) {
    const std::vector<Symbol> required = records_.object(id).required;
    if (!std::any_of(required.begin(), required.end(), [&](Symbol key) {
          return certainly_empty(property_goal(id, key), depth - 1);
        })) {
      return false;
    }
  }
  for (const RecordId id : alternatives.arrays) {
    constexpr uint64_t kLookAt = 16;
    const uint64_t items = std::min(records_.array(id).min, kLookAt);
    bool empty = false;
    for (uint64_t i = 0; i < items && !empty; ++i) {
      empty = certainly_empty(item_goal(id, i), depth - 1);
    }
    if (!empty) return false;
  }
  return true;
}

bool Expander::certainly_empty(GoalId goal, int depth) {
  if (goal == kNothing) return true;
  if (goal == kAnything || depth <= 0) return false;
  if (const auto found = empty_.find(goal); found != empty_.end()) return found->second;
  // Each search may expand goals, which may begin searches: not through a whole schema.
  if (looking_ >= kContradictionDepth) return false;
  ++looking_;
  const auto expanded = expand(goal);
  const bool empty = expanded.ok() && certainly_empty(**expanded, depth);
  --looking_;
  if (!expanded.ok()) return false;
  if (empty || depth == kContradictionDepth - 1) empty_.emplace(goal, empty);
  return empty;
}

}  // namespace chimere::constraints::json_schema
