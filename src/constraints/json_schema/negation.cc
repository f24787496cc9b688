// Negated schemas: a value fails a schema if it fails one of its keywords.
#include <algorithm>

#include "constraints/json_schema/expansion.h"

namespace chimere::constraints::json_schema {

namespace {

Alternatives only_object(RecordId record) {
  Alternatives out;
  out.objects.push_back(record);
  return out;
}

Alternatives only_array(RecordId record) {
  Alternatives out;
  out.arrays.push_back(record);
  return out;
}

Alternatives only_numbers(NumberSet set) {
  Alternatives out;
  out.numbers.emplace_back();
  out.numbers[0].set = std::move(set);
  return out;
}

Alternatives only_strings(StringSet set) {
  Alternatives out;
  out.strings.push_back(set);
  return out;
}

}  // namespace

Alternatives Expander::object_lacks(Symbol key) {
  ObjectScope scope;
  scope.named.emplace_back(key, kNothing);
  scope.evaluates = false;
  ObjectRecord record;
  record.scopes = {records_.object_scope(std::move(scope))};
  return only_object(records_.object(std::move(record)));
}

Alternatives Expander::object_has(Symbol key, GoalId goal) {
  ObjectRecord record;
  record.required = {key};
  if (goal != kAnything) {
    ObjectScope scope;
    scope.named.emplace_back(key, goal);
    scope.evaluates = false;
    record.scopes = {records_.object_scope(std::move(scope))};
  }
  return only_object(records_.object(std::move(record)));
}

/// The names that additionalProperties applies to.
Regex Expander::other_names(const Node& node) {
  std::vector<std::string> words;
  words.reserve(node.properties.size());
  for (const auto& [key, schema] : node.properties) words.push_back(values_.text(key));
  std::vector<Regex> parts = {arena_.words(std::move(words))};
  for (const auto& [names, schema] : node.pattern_properties) parts.push_back(names);
  return arena_.complement(arena_.unite(parts));
}

Result<Alternatives> Expander::expand_negation(const Node& node) {
  if (node.is_false) return Records::anything();
  Alternatives out = Records::of_types(static_cast<uint8_t>(kAllTypes & ~node.types));
  if (node.has_enum) {
    CHIMERE_CHECK_OK(unite(node, out, negated_enumeration(node)));
  }
  if (node.minimum) {
    NumberSet set;
    set.max = node.minimum;
    set.exclusive_max = !node.exclusive_minimum;
    CHIMERE_CHECK_OK(unite(node, out, only_numbers(set)));
  }
  if (node.maximum) {
    NumberSet set;
    set.min = node.maximum;
    set.exclusive_min = !node.exclusive_maximum;
    CHIMERE_CHECK_OK(unite(node, out, only_numbers(set)));
  }
  if (node.multiple_of) {
    NumberSet set;
    set.not_multiple_of = {*node.multiple_of};
    CHIMERE_CHECK_OK(unite(node, out, only_numbers(set)));
  }
  if (node.min_length > 0) {
    CHIMERE_CHECK_OK(unite(node, out, only_strings({arena_.any(), 0, node.min_length - 1})));
  }
  if (node.max_length != kNoLimit) {
    CHIMERE_CHECK_OK(unite(node, out, only_strings({arena_.any(), node.max_length + 1, kNoLimit})));
  }
  for (const Regex pattern : node.patterns) {
    CHIMERE_CHECK_OK(unite(node, out, only_strings({arena_.complement(pattern), 0, kNoLimit})));
  }
  CHIMERE_CHECK_OK(negate_object_keywords(node, out));
  CHIMERE_CHECK_OK(negate_array_keywords(node, out));
  CHIMERE_CHECK_OK(negate_applicators(node, out));
  return out;
}

Status Expander::negate_object_keywords(const Node& node, Alternatives& out) {
  std::vector<Alternatives> parts;
  for (const auto& [key, schema] : node.properties) {
    const GoalId goal = goal_of(schema, true);
    if (goal != kNothing) parts.push_back(object_has(key, goal));
  }
  const auto some = [&](Regex names, GoalId goal) {
    if (goal == kNothing || names == arena_.none()) return;
    ObjectRecord record;
    record.some.push_back({names, goal});
    record.min = 1;
    parts.push_back(only_object(records_.object(std::move(record))));
  };
  for (const auto& [names, schema] : node.pattern_properties) some(names, goal_of(schema, true));
  if (node.additional_properties != kNone) {
    some(other_names(node), goal_of(node.additional_properties, true));
  }
  if (node.property_names != kNone) {
    CHIMERE_TRY(const Alternatives* names,
                expand_literal(literal_of(node.property_names, true), false));
    std::vector<Regex> languages;
    for (const StringSet& set : names->strings) {
      Regex language = set.language;
      if (set.min > 0 || set.max != kNoLimit) {
        const auto bound = [](uint64_t count) {
          return static_cast<uint32_t>(std::min<uint64_t>(count, RegexArena::kMaxCount));
        };
        language = arena_.intersect(
            language, arena_.length(bound(set.min),
                                    set.max == kNoLimit ? RegexArena::kUnbounded : bound(set.max)));
      }
      languages.push_back(language);
    }
    some(arena_.unite(languages), kAnything);
  }
  for (const Symbol key : node.required) parts.push_back(object_lacks(key));
  if (node.min_properties > 0) {
    ObjectRecord record;
    record.max = node.min_properties - 1;
    parts.push_back(only_object(records_.object(std::move(record))));
  }
  if (node.max_properties != kNoLimit) {
    ObjectRecord record;
    record.min = node.max_properties + 1;
    parts.push_back(only_object(records_.object(std::move(record))));
  }
  for (const auto& [key, required] : node.dependent_required) {
    for (const Symbol other : required) {
      Alternatives part = object_has(key, kAnything);
      CHIMERE_CHECK_OK(intersect(node, part, object_lacks(other)));
      if (other != key) parts.push_back(std::move(part));
    }
  }
  if (node.unevaluated_properties != kNone || node.unevaluated_items != kNone) {
    return at(node,
              "\"unevaluatedProperties\" and \"unevaluatedItems\" cannot be negated (by "
              "\"not\", \"oneOf\" or \"if\")");
  }
  parts.push_back(std::move(out));
  return unite_all(node, std::move(parts), out);
}

Status Expander::negate_array_keywords(const Node& node, Alternatives& out) {
  const auto add = [&](ArrayRecord record) {
    return unite(node, out, only_array(records_.array(std::move(record))));
  };
  for (size_t i = 0; i < node.prefix_items.size(); ++i) {
    const GoalId goal = goal_of(node.prefix_items[i], true);
    if (goal == kNothing) continue;
    ArrayScope scope;
    scope.prefix.assign(i, kAnything);
    scope.prefix.push_back(goal);
    scope.evaluates = false;
    ArrayRecord record;
    record.min = i + 1;
    record.scopes = {records_.array_scope(std::move(scope))};
    CHIMERE_CHECK_OK(add(std::move(record)));
  }
  if (node.items != kNone) {
    const GoalId goal = goal_of(node.items, true);
    ArrayRecord record;
    record.min = node.prefix_items.size() + 1;
    if (goal != kAnything) record.some.push_back({node.prefix_items.size(), goal, 1, kNoLimit});
    if (goal != kNothing) CHIMERE_CHECK_OK(add(std::move(record)));
  }
  if (node.contains != kNone) {
    if (node.min_contains == 1) {
      ArrayScope scope;
      scope.rest = goal_of(node.contains, true);
      scope.evaluates = false;
      ArrayRecord record;
      record.scopes = {records_.array_scope(std::move(scope))};
      CHIMERE_CHECK_OK(add(std::move(record)));
    } else if (node.min_contains > 1) {
      ArrayRecord record;
      record.some.push_back({0, goal_of(node.contains), 0, node.min_contains - 1});
      CHIMERE_CHECK_OK(add(std::move(record)));
    }
    if (node.max_contains != kNoLimit) {
      ArrayRecord record;
      record.some.push_back({0, goal_of(node.contains), node.max_contains + 1, kNoLimit});
      CHIMERE_CHECK_OK(add(std::move(record)));
    }
  }
  if (node.min_items > 0) {
    ArrayRecord record;
    record.max = node.min_items - 1;
    CHIMERE_CHECK_OK(add(std::move(record)));
  }
  if (node.max_items != kNoLimit) {
    ArrayRecord record;
    record.min = node.max_items + 1;
    CHIMERE_CHECK_OK(add(std::move(record)));
  }
  if (node.unique_items) {
    return at(node, "\"uniqueItems\" cannot be negated (by \"not\", \"oneOf\" or \"if\")");
  }
  return {};
}

Status Expander::negate_applicators(const Node& node, Alternatives& out) {
  const auto add = [&](NodeId id, bool negated) -> Status {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(id, negated), false));
    return unite(node, out, *part);
  };
  for (const NodeId part : node.all_of) CHIMERE_CHECK_OK(add(part, true));
  if (node.negated != kNone) CHIMERE_CHECK_OK(add(node.negated, false));
  if (!node.any_of.empty() || !node.one_of.empty()) {
    for (const auto* list : {&node.any_of, &node.one_of}) {
      if (list->empty()) continue;
      Alternatives none = Records::anything();
      for (const NodeId part : *list) {
        CHIMERE_TRY(const Alternatives* negated, expand_literal(literal_of(part, true), false));
        CHIMERE_CHECK_OK(intersect(node, none, *negated));
      }
      CHIMERE_CHECK_OK(unite(node, out, none));
    }
    for (size_t i = 0; i < node.one_of.size(); ++i) {
      for (size_t j = i + 1; j < node.one_of.size(); ++j) {
        CHIMERE_TRY(const Alternatives* left,
                    expand_literal(literal_of(node.one_of[i], false), false));
        CHIMERE_TRY(const Alternatives* right,
                    expand_literal(literal_of(node.one_of[j], false), false));
        Alternatives both = *left;
        CHIMERE_CHECK_OK(intersect(node, both, *right));
        CHIMERE_CHECK_OK(unite(node, out, both));
      }
    }
  }
  if (node.if_schema != kNone) {
    for (const bool holds : {true, false}) {
      const NodeId consequence = holds ? node.then_schema : node.else_schema;
      if (consequence == kNone) continue;
      CHIMERE_TRY(const Alternatives* condition,
                  expand_literal(literal_of(node.if_schema, !holds), false));
      CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(consequence, true), false));
      Alternatives both = *condition;
      CHIMERE_CHECK_OK(intersect(node, both, *part));
      CHIMERE_CHECK_OK(unite(node, out, both));
    }
  }
  for (const auto& [key, schema] : node.dependent_schemas) {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(schema, true), false));
    Alternatives both = object_has(key, kAnything);
    CHIMERE_CHECK_OK(intersect(node, both, *part));
    CHIMERE_CHECK_OK(unite(node, out, both));
  }
  return {};
}

Alternatives Expander::negated_enumeration(const Node& node) {
  Alternatives out = Records::anything();
  std::vector<std::string> words;
  std::vector<Decimal> numbers;
  ObjectRecord object;
  ArrayRecord array;
  for (const ValueId id : node.enumeration) {
    const JsonValue& value = values_[id];
    switch (value.type) {
      case ValueType::kNull:
        out.null = false;
        break;
      case ValueType::kTrue:
        out.yes = false;
        break;
      case ValueType::kFalse:
        out.no = false;
        break;
      case ValueType::kString:
        words.push_back(values_.text(value.text));
        break;
      case ValueType::kNumber:
        if (const auto number = Decimal::parse(values_.text(value.text))) {
          numbers.push_back(*number);
        }
        break;
      case ValueType::kArray:
        array.differs.push_back(id);
        break;
      case ValueType::kObject:
        object.differs.push_back(id);
        break;
    }
  }
  std::sort(object.differs.begin(), object.differs.end());
  std::sort(array.differs.begin(), array.differs.end());
  out.objects = {records_.object(std::move(object))};
  out.arrays = {records_.array(std::move(array))};
  if (!words.empty()) out.strings[0].language = arena_.complement(arena_.words(std::move(words)));
  std::sort(numbers.begin(), numbers.end());
  out.numbers[0].set.excluded = std::move(numbers);
  return out;
}

}  // namespace chimere::constraints::json_schema
