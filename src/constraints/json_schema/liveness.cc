#include "constraints/json_schema/liveness.h"

#include <algorithm>
#include <string>

#include "constraints/work.h"

namespace chimere::constraints::json_schema {

namespace {

/// Evaluations of goals for one question.
constexpr size_t kMaxEvaluations = 3'000'000;
/// Work of each (constraints/work.h).
constexpr uint64_t kUnitsPerEvaluation = 5;

bool has(const std::vector<Symbol>& sorted, Symbol key) {
  return std::binary_search(sorted.begin(), sorted.end(), key);
}

}  // namespace

bool Liveness::fail(Error error) {
  Status& status = in_document_ ? undecided_ : status_;
  if (!status.ok()) return false;
  status = where_.kind ? expander_.located(*where_.kind, where_.record, std::move(error))
                       : expander_.located(where_.goal, std::move(error));
  return false;
}

void Liveness::begin_document() {
  in_document_ = true;
  expander_.arena().limit_single_explorations();
}

void Liveness::undecided(RecordId record, Error error) {
  const Looking looking(*this, Expander::RecordKind::kObject, record);
  fail(std::move(error));
}

void Liveness::report_dead_end() {
  if (!status_.ok()) return;
  status_ = undecided_.ok()
                ? Status(unsupported("JSON schema: no text can follow what was written"))
                : undecided_;
}

/// The least fixpoint: every goal that the answer depends on counts as impossible until it is seen
/// to be possible.
bool Liveness::inhabited(GoalId goal) {
  if (goal == kAnything) return true;
  if (goal == kNothing) return false;
  if (const auto found = known_.find(goal); found != known_.end()) return found->second;
  const Looking looking(*this, goal);
  std::vector<GoalId> open = {goal};
  std::unordered_set<GoalId> waiting = {goal};
  std::unordered_set<GoalId> holds;
  const Probe probe = [&](GoalId other) {
    if (other == kAnything) return true;
    if (other == kNothing) return false;
    if (const auto found = known_.find(other); found != known_.end()) return found->second;
    if (holds.contains(other)) return true;
    if (waiting.insert(other).second) open.push_back(other);
    return false;
  };
  size_t evaluations = 0;
  // Discovery: depth first, each goal once.
  std::vector<GoalId> order;
  while (!open.empty()) {
    const GoalId next = open.back();
    open.pop_back();
    WorkScope::add(kUnitsPerEvaluation);
    if (++evaluations > kMaxEvaluations || WorkScope::exhausted()) break;
    if (possible(next, probe)) {
      holds.insert(next);
    } else {
      order.push_back(next);
    }
  }
  for (bool changed = true; changed && !holds.contains(goal);) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const GoalId next = order[i];
      if (holds.contains(next)) continue;
      WorkScope::add(kUnitsPerEvaluation);
      if (++evaluations > kMaxEvaluations || WorkScope::exhausted()) {
        return fail(unsupported("the schema is too large to decide whether it has documents"));
      }
      if (possible(next, probe)) {
        holds.insert(next);
        changed = true;
      }
    }
    std::erase_if(order, [&](GoalId other) { return holds.contains(other); });
    for (; !open.empty(); open.pop_back()) {
      order.push_back(open.back());
      changed = true;
    }
  }
  for (const GoalId other : holds) known_.emplace(other, true);
  if (holds.contains(goal)) return true;
  for (const GoalId other : order) known_.emplace(other, false);
  known_.emplace(goal, false);
  return false;
}

bool Liveness::possible(GoalId goal, const Probe& probe) {
  const Looking looking(*this, goal);
  const auto expanded = expander_.expand(goal);
  if (!expanded.ok()) return fail(expanded.error());
  const Alternatives& alternatives = **expanded;
  if (alternatives.null || alternatives.yes || alternatives.no) return true;
  for (const NumberAlternative& number : alternatives.numbers) {
    const auto machine = leaves_.numbers({number});
    if (!machine.ok()) return fail(machine.error());
    if (*machine != nullptr) return true;
  }
  for (const StringSet& string : alternatives.strings) {
    const auto machine = leaves_.strings({string});
    if (!machine.ok()) return fail(machine.error());
    if (*machine != nullptr) return true;
  }
  const std::vector<Symbol> none;
  for (const RecordId record : alternatives.arrays) {
    if (array_possible(record, {0, no_counts(record), &none}, probe)) return true;
  }
  return std::any_of(alternatives.objects.begin(), alternatives.objects.end(),
                     [&](RecordId record) {
                       return object_possible(record, {none, 0, &none}, probe);
                     });
}

std::vector<Symbol> Liveness::pending(const ObjectRecord& record, const std::vector<Symbol>& seen,
                                      Symbol next) const {
  std::vector<Symbol> out;
  const auto there = [&](Symbol key) { return key == next || has(seen, key); };
  for (const Symbol key : record.required) {
    if (!there(key)) out.push_back(key);
  }
  if (record.dependent.empty()) return out;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [key, list] : record.dependent) {
      if (!there(key) && !has(out, key)) continue;
      for (const Symbol other : list) {
        if (there(other) || has(out, other)) continue;
        out.insert(std::lower_bound(out.begin(), out.end(), other), other);
        changed = true;
      }
    }
  }
  return out;
}

std::vector<Symbol> Liveness::named_keys(RecordId record) const {
  const ObjectRecord& object = expander_.records().object(record);
  std::vector<Symbol> out = object.required;
  for (const ScopeId scope : object.scopes) {
    for (const auto& [key, goal] : expander_.records().object_scope(scope).named) {
      out.push_back(key);
    }
  }
  for (const auto& [key, list] : object.dependent) {
    out.push_back(key);
    out.insert(out.end(), list.begin(), list.end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The language of propertyNames.
Regex Liveness::names_language(RecordId record) {
  const Looking looking(*this, Expander::RecordKind::kObject, record);
  if (const auto found = names_.find(record); found != names_.end()) return found->second;
  RegexArena& arena = expander_.arena();
  Regex language = arena.any();
  const std::vector<GoalId> names = expander_.records().object(record).names;
  for (const GoalId goal : names) {
    const auto expanded = expander_.expand(goal);
    if (!expanded.ok()) {
      fail(expanded.error());
      language = arena.none();
      break;
    }
    std::vector<Regex> parts;
    for (const StringSet& set : (*expanded)->strings) {
      const auto bound = [](uint64_t count) {
        return count == kNoLimit
                   ? RegexArena::kUnbounded
                   : static_cast<uint32_t>(std::min<uint64_t>(count, RegexArena::kMaxCount));
      };
      const bool bounded = set.min > 0 || set.max != kNoLimit;
      parts.push_back(
          bounded ? arena.intersect(set.language, arena.length(bound(set.min), bound(set.max)))
                  : set.language);
    }
    language = arena.intersect(language, arena.unite(parts));
  }
  names_.emplace(record, language);
  return language;
}

bool Liveness::names_allow(RecordId record, Symbol key) {
  if (expander_.records().object(record).names.empty()) return true;
  return expander_.matches(names_language(record), key);
}

/// The keys without a goal of their own, by the patterns that they match.
const std::vector<Liveness::Class>& Liveness::classes(RecordId record) {
  const Looking looking(*this, Expander::RecordKind::kObject, record);
  constexpr size_t kMaxClasses = 64;
  if (const auto found = classes_.find(record); found != classes_.end()) return found->second;
  RegexArena& arena = expander_.arena();
  const Records& records = expander_.records();
  std::vector<Regex> patterns;
  bool closed = true;  // without patterns, every other key is refused
  const auto collect = [&](const ObjectScope& scope) {
    for (const auto& [names, goal] : scope.patterns) {
      if (std::find(patterns.begin(), patterns.end(), names) == patterns.end()) {
        patterns.push_back(names);
      }
    }
  };
  bool refuses = false;
  for (const ScopeId id : records.object(record).scopes) {
    const ObjectScope& scope = records.object_scope(id);
    collect(scope);
    for (const ScopeId cover : scope.covers) collect(records.object_scope(cover));
    refuses = refuses || (scope.rest == kNothing && scope.covers.empty());
  }
  closed = refuses && patterns.empty();
  std::vector<Class>& out = classes_[record];
  if (closed) return out;
  std::vector<std::string> words;
  for (const Symbol key : named_keys(record)) words.push_back(expander_.values().text(key));
  Regex language = names_language(record);
  if (!words.empty()) {
    language = arena.intersect(language, arena.complement(arena.words(std::move(words))));
  }
  std::vector<std::pair<Regex, std::vector<bool>>> parts = {{language, {}}};
  for (const Regex pattern : patterns) {
    std::vector<std::pair<Regex, std::vector<bool>>> split;
    for (auto& [names, matched] : parts) {
      for (const bool match : {true, false}) {
        const Regex part = arena.intersect(names, match ? pattern : arena.complement(pattern));
        const auto empty = arena.empty(part);
        if (!empty.ok()) {
          fail(empty.error());
          return out;
        }
        if (*empty) continue;
        split.emplace_back(part, matched);
        split.back().second.push_back(match);
      }
    }
    parts = std::move(split);
    if (parts.size() > kMaxClasses) {
      fail(unsupported("\"patternProperties\" overlap in too many ways"));
      return out;
    }
  }
  for (const auto& [names, matched] : parts) {
    const auto is_matched = [&, &matched = matched](Regex pattern) {
      const auto found = std::find(patterns.begin(), patterns.end(), pattern);
      return static_cast<bool>(matched[static_cast<size_t>(found - patterns.begin())]);
    };
    const auto matches_some = [&](const ObjectScope& scope) {
      return std::any_of(scope.patterns.begin(), scope.patterns.end(),
                         [&](const auto& pattern) { return is_matched(pattern.first); });
    };
    GoalId goal = kAnything;
    const std::vector<ScopeId> scopes = records.object(record).scopes;
    for (const ScopeId id : scopes) {
      const ObjectScope& scope = records.object_scope(id);
      for (const auto& [pattern, by_pattern] : scope.patterns) {
        if (is_matched(pattern)) goal = expander_.conjunction(goal, by_pattern);
      }
      bool additional = !matches_some(scope);
      for (const ScopeId cover : scope.covers) {
        const ObjectScope& by = records.object_scope(cover);
        additional = additional && !(by.evaluates && (by.rest_evaluates || matches_some(by)));
      }
      if (additional) goal = expander_.conjunction(goal, scope.rest);
    }
    if (goal != kNothing) out.push_back({names, goal});
  }
  return out;
}

const Liveness::Keys& Liveness::keys(RecordId record) {
  if (const auto found = keys_.find(record); found != keys_.end()) return found->second;
  RegexArena& arena = expander_.arena();
  Keys keys;
  keys.named = named_keys(record);
  for (const Symbol key : keys.named) {
    if (names_allow(record, key) && inhabited(expander_.property_goal(record, key))) {
      keys.allowed.push_back(key);
    }
  }
  const Values& values = expander_.values();
  std::sort(keys.allowed.begin(), keys.allowed.end(),
            [&](Symbol a, Symbol b) { return values.text(a) < values.text(b); });
  std::vector<Regex> languages;
  const Records& records = expander_.records();
  const bool plain = records.object(record).names.empty() &&
                     std::all_of(records.object(record).scopes.begin(),
                                 records.object(record).scopes.end(), [&](ScopeId id) {
                                   const ObjectScope& scope = records.object_scope(id);
                                   return scope.patterns.empty() && scope.rest == kAnything;
                                 });
  if (plain) {
    keys.all_others = true;
  } else {
    const std::vector<Class> all = classes(record);
    bool every = true;
    for (const Class& one : all) {
      if (inhabited(one.goal)) {
        languages.push_back(one.names);
      } else {
        every = false;
      }
    }
    keys.others = arena.unite(languages);
    // Whether the classes are all other keys: nothing is refused.
    if (every && !all.empty() && records.object(record).names.empty()) {
      std::vector<std::string> words;
      for (const Symbol key : keys.named) words.push_back(expander_.values().text(key));
      const auto subset =
          arena.subset(arena.complement(arena.words(std::move(words))), keys.others);
      keys.all_others = subset.ok() && *subset;
    }
  }
  return keys_.emplace(record, std::move(keys)).first->second;
}

bool Liveness::enough_keys(RecordId record, uint64_t wanted, const Probe& probe) {
  uint64_t count = 0;
  const ObjectRecord& object = expander_.records().object(record);
  for (const Symbol key : named_keys(record)) {
    if (count >= wanted) return true;
    if (!names_allow(record, key) || !probe(expander_.property_goal(record, key))) continue;
    const std::vector<Symbol> implied = pending(object, {}, key);
    const bool possible = std::all_of(implied.begin(), implied.end(), [&](Symbol other) {
      return names_allow(record, other) && probe(expander_.property_goal(record, other));
    });
    if (possible) ++count;
  }
  const std::vector<Class> all = classes(record);
  for (const Class& one : all) {
    if (count >= wanted) return true;
    if (!probe(one.goal)) continue;
    const auto finite =
        expander_.arena().finite(one.names, static_cast<size_t>(std::min<uint64_t>(wanted, 4096)));
    if (!finite.ok()) return fail(finite.error());
    if (!*finite) return true;
    count += (*finite)->size();
  }
  return count >= wanted;
}

bool Liveness::endless(Regex language) {
  constexpr size_t kMany = 64;
  const auto [found, added] = endless_.emplace(language, false);
  if (!added) return found->second;
  const auto finite = expander_.arena().finite(language, kMany);
  if (!finite.ok()) return fail(finite.error());
  found->second = !finite->has_value();
  return found->second;
}

/// Whether the conditions of ObjectRecord::some that are open can all be satisfied by keys that are
/// pending or by at most `slots` further ones: an assignment of keys to conditions is searched.
bool Liveness::can_satisfy(RecordId record, const ObjectProgress& progress,
                           const std::vector<Symbol>& pending, uint64_t slots, const Probe& probe) {
  constexpr size_t kMostCandidates = 12;
  const ObjectRecord object = expander_.records().object(record);
  RegexArena& arena = expander_.arena();
  const std::vector<Class> all = classes(record);
  const std::vector<Symbol> named = named_keys(record);
  struct Condition {
    GoalId goal = kAnything;
    std::vector<Symbol> keys;  ///< that can satisfy it, the pending ones first
    bool endless = false;      ///< or any of many others
  };
  std::vector<Condition> open;
  for (size_t i = 0; i < object.some.size(); ++i) {
    if ((progress.done >> i & 1) != 0) continue;
    const SomeProperty& some = object.some[i];
    Condition condition;
    condition.goal = some.goal;
    for (const bool must : {true, false}) {
      for (const Symbol key : named) {
        if (has(pending, key) != must || has(progress.seen, key)) continue;
        if (condition.keys.size() >= kMostCandidates) break;
        if (!expander_.matches(some.names, key) || !names_allow(record, key)) continue;
        if (probe(expander_.conjunction(expander_.property_goal(record, key), some.goal))) {
          condition.keys.push_back(key);
        }
      }
    }
    for (const Class& one : all) {
      if (!probe(expander_.conjunction(one.goal, some.goal))) continue;
      condition.endless = condition.endless || endless(arena.intersect(one.names, some.names));
    }
    if (condition.keys.empty() && !condition.endless) return false;
    open.push_back(std::move(condition));
  }
  std::map<Symbol, GoalId> chosen;
  const std::function<bool(size_t, uint64_t)> assign = [&](size_t at, uint64_t free) {
    if (at == open.size()) return true;
    for (const Symbol key : open[at].keys) {
      const auto found = chosen.find(key);
      const bool is_new = found == chosen.end();
      const bool takes_slot = is_new && !has(pending, key);
      if (takes_slot && free == 0) continue;
      const GoalId before = is_new ? expander_.property_goal(record, key) : found->second;
      const GoalId both = expander_.conjunction(before, open[at].goal);
      if (!probe(both)) continue;
      chosen[key] = both;
      if (assign(at + 1, takes_slot && free != kNoLimit ? free - 1 : free)) return true;
      if (is_new) {
        chosen.erase(key);
      } else {
        chosen[key] = before;
      }
    }
    return open[at].endless && free > 0 && assign(at + 1, free == kNoLimit ? free : free - 1);
  };
  return assign(0, object.dependent.empty() ? slots : 0);
}

bool Liveness::object_possible(RecordId record, const ObjectProgress& progress,
                               const Probe& probe) {
  const Looking looking(*this, Expander::RecordKind::kObject, record);
  const ObjectRecord object = expander_.records().object(record);
  const std::vector<Symbol> must = pending(object, progress.seen, kNone);
  const uint64_t count = progress.seen.size();
  if (count + must.size() > object.max) return false;
  bool good = true;
  for (const Symbol key : must) {  // all of them, so that all are discovered at once
    good = names_allow(record, key) && probe(expander_.property_goal(record, key)) && good;
  }
  if (!good) return false;
  if (!object.dependent.empty() && object.max != kNoLimit) {
    if (!can_reach_count(record, progress, must, 0, probe)) return false;
  } else if (count == 0 && object.min > must.size() && !enough_keys(record, object.min, probe)) {
    return false;
  }
  constexpr size_t kMostConditions = 6;
  if (object.some.size() > kMostConditions) {
    return fail(unsupported("too many conditions on one object are negated"));
  }
  if (!object.differs.empty() && !object_can_differ(record, progress, must, probe)) return false;
  uint64_t open = 0;
  for (size_t i = 0; i < object.some.size(); ++i) open += (progress.done >> i & 1) == 0 ? 1 : 0;
  if (open == 0) return true;
  const uint64_t slots = object.max == kNoLimit ? kNoLimit : object.max - count - must.size();
  return can_satisfy(record, progress, must, slots, probe);
}

bool Liveness::completable(RecordId record, const ObjectProgress& progress) {
  return object_possible(record, progress, [this](GoalId goal) { return inhabited(goal); });
}

bool Liveness::complete(RecordId record, const ObjectProgress& progress) {
  const ObjectRecord& object = expander_.records().object(record);
  const uint64_t all = (uint64_t{1} << object.some.size()) - 1;
  return progress.seen.size() >= object.min && progress.seen.size() <= object.max &&
         progress.done == all && pending(object, progress.seen, kNone).empty() &&
         std::none_of(object.differs.begin(), object.differs.end(), [&](ValueId value) {
           const JsonValue& json = expander_.values()[value];
           return json.keys == progress.seen && json.items == *progress.values;
         });
}

std::vector<Outcome> Liveness::property_outcomes(RecordId record, const ObjectProgress& progress,
                                                 Symbol key) {
  const GoalId goal = expander_.property_goal(record, key);
  if (!inhabited(goal) || !names_allow(record, key)) return {};
  std::vector<Symbol> seen = progress.seen;
  const auto place = std::lower_bound(seen.begin(), seen.end(), key) - seen.begin();
  seen.insert(seen.begin() + place, key);
  std::vector<ValueId> values;
  GoalId base = goal;
  if (!expander_.records().object(record).differs.empty()) {
    // Values after which the object could not differ from all that it must differ from.
    values = *progress.values;
    values.insert(values.begin() + place, kNone);
    std::vector<ValueId> refused;
    for (const ValueId equal : equal_so_far(record, progress)) {
      const ValueId value = expander_.values().member(equal, key);
      if (value == kNone || std::find(refused.begin(), refused.end(), value) != refused.end()) {
        continue;
      }
      values[static_cast<size_t>(place)] = value;
      if (!completable(record, {seen, progress.done, &values})) refused.push_back(value);
    }
    values[static_cast<size_t>(place)] = kNone;
    base = expander_.conjunction(goal, expander_.excluding(std::move(refused)));
  }
  const std::vector<SomeProperty> some = expander_.records().object(record).some;
  std::vector<uint32_t> applicable;
  for (uint32_t i = 0; i < some.size(); ++i) {
    if ((progress.done >> i & 1) == 0 && expander_.matches(some[i].names, key)) {
      applicable.push_back(i);
    }
  }
  std::vector<Outcome> out;
  for (uint32_t subset = 0; subset < 1U << applicable.size(); ++subset) {
    Outcome outcome = {base, progress.done};
    for (size_t i = 0; i < applicable.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      outcome.goal = expander_.conjunction(outcome.goal, some[applicable[i]].goal);
      outcome.after |= 1U << applicable[i];
    }
    if (inhabited(outcome.goal) && completable(record, {seen, outcome.after, &values})) {
      out.push_back(outcome);
    }
  }
  return out;
}

std::vector<Symbol> Liveness::allowed_keys(RecordId record, const ObjectProgress& progress) {
  const ObjectRecord& object = expander_.records().object(record);
  const std::vector<Symbol>& allowed = keys(record).allowed;
  const bool simple = object.some.empty() && object.dependent.empty() && object.differs.empty();
  std::vector<Symbol> must;
  bool slots = true;
  if (simple) {
    must = pending(object, progress.seen, kNone);
    slots = progress.seen.size() + must.size() < object.max;
  }
  std::vector<Symbol> out;
  for (const Symbol key : allowed) {
    if (has(progress.seen, key)) continue;
    const bool possible =
        simple ? slots || has(must, key) : !property_outcomes(record, progress, key).empty();
    if (possible) out.push_back(key);
  }
  return out;
}

bool Liveness::all_other_keys(RecordId record, const ObjectProgress& progress) {
  if (!keys(record).all_others) return false;
  const ObjectRecord& object = expander_.records().object(record);
  if (object.max == kNoLimit) return true;
  uint64_t open = 0;
  for (size_t i = 0; i < object.some.size(); ++i) open += (progress.done >> i & 1) == 0 ? 1 : 0;
  const uint64_t used = progress.seen.size() + pending(object, progress.seen, kNone).size();
  return used < object.max && (open == 0 || object.max - used > open);
}

const Liveness::Special& Liveness::special(RecordId record) {
  const Looking looking(*this, Expander::RecordKind::kObject, record);
  constexpr size_t kMostKeys = 64;
  const auto [found, added] = special_.try_emplace(record);
  if (!added) return found->second;
  Special out;
  out.keys = keys(record).named;
  const std::vector<SomeProperty> some = expander_.records().object(record).some;
  for (const SomeProperty& one : some) {
    out.listed = out.listed && expander_.arena().is_words(one.names);
    if (!out.listed) break;
    const auto names = expander_.arena().finite(one.names, kMostKeys);
    out.listed = names.ok() && names->has_value();
    if (!out.listed) break;
    for (const std::string& name : **names) out.keys.push_back(expander_.values().symbol(name));
  }
  return special_[record] = std::move(out);
}

const std::vector<Symbol>& Liveness::special_keys(RecordId record) { return special(record).keys; }

bool Liveness::uniform_others(RecordId record) {
  if (!special(record).listed) return false;
  const ObjectRecord& object = expander_.records().object(record);
  if (!object.names.empty() || !object.differs.empty()) return false;
  return std::all_of(object.scopes.begin(), object.scopes.end(), [&](ScopeId id) {
    const ObjectScope& scope = expander_.records().object_scope(id);
    return scope.patterns.empty() && scope.covers.empty();
  });
}

std::vector<Regex> Liveness::key_classes(RecordId record) {
  const ObjectRecord& object = expander_.records().object(record);
  if (!object.some.empty() || !object.differs.empty()) return {};
  std::vector<Regex> out;
  const std::vector<Class> all = classes(record);
  for (const Class& one : all) out.push_back(one.names);
  return out;
}

bool Liveness::one_class(RecordId record) {
  const ObjectRecord& object = expander_.records().object(record);
  if (!object.some.empty() || !object.differs.empty()) return false;
  const std::vector<Class> all = classes(record);
  return std::ranges::count_if(all, [&](const Class& one) { return inhabited(one.goal); }) <= 1;
}

Regex Liveness::other_keys(RecordId record, const ObjectProgress& progress) {
  RegexArena& arena = expander_.arena();
  const ObjectRecord object = expander_.records().object(record);
  const std::vector<Symbol> must = pending(object, progress.seen, kNone);
  const uint64_t used = progress.seen.size() + must.size();
  if (used >= object.max) return arena.none();
  uint64_t open = 0;
  Regex wanted = arena.none();
  for (size_t i = 0; i < object.some.size(); ++i) {
    if ((progress.done >> i & 1) != 0) continue;
    ++open;
    wanted = arena.unite(wanted, object.some[i].names);
  }
  const Probe probe = [this](GoalId goal) { return inhabited(goal); };
  if (!object.dependent.empty() && object.max != kNoLimit &&
      !can_reach_count(record, progress, must, 1, probe)) {
    return arena.none();
  }
  std::vector<Regex> languages;
  const std::vector<Class> all = classes(record);
  for (const Class& one : all) {
    if (!inhabited(one.goal)) continue;
    // With no slot to spare, a key must satisfy a condition that is open.
    if (open == 0 || object.max - used > open) {
      languages.push_back(one.names);
      continue;
    }
    for (size_t i = 0; i < object.some.size(); ++i) {
      if ((progress.done >> i & 1) != 0) continue;
      const ObjectProgress next = {progress.seen, progress.done | 1U << i, progress.values};
      if (inhabited(expander_.conjunction(one.goal, object.some[i].goal)) &&
          can_satisfy(record, next, must, object.max - used - 1, probe)) {
        languages.push_back(arena.intersect(one.names, object.some[i].names));
      }
    }
  }
  return arena.unite(languages);
}

}  // namespace chimere::constraints::json_schema
