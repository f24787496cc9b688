#include "constraints/json_schema/expansion.h"

#include <algorithm>
#include <utility>

#include "constraints/work.h"

namespace chimere::constraints::json_schema {

namespace {

/// Nesting of schemas that apply to the same value, where chains of them cannot be followed
/// iteratively.
constexpr int kMaxDepth = 300;

bool is_free(const Node& node) {
  return node.min_properties == 0 && node.max_properties == kNoLimit && node.properties.empty() &&
         node.pattern_properties.empty() && node.additional_properties == kNone &&
         node.property_names == kNone && node.required.empty() && node.dependent_required.empty();
}

template <typename Visit>
void for_each_in_place(const Node& node, Visit&& visit) {
  for (const NodeId child : node.all_of) visit(child);
  for (const NodeId child : node.any_of) visit(child);
  for (const NodeId child : node.one_of) visit(child);
}

}  // namespace

Expander::Expander(Schemas& schemas, Values& values, RegexArena& arena)
    : schemas_(schemas), values_(values), arena_(arena), records_(arena) {
  goals_.intern({});
  goals_.intern({literal_of(kFalseNode, false)});
}

Error Expander::at(const Node& node, const std::string& sentence) {
  return unsupported(error_place(node.pointer) + sentence);
}

Error Expander::located(GoalId goal, Error error) const {
  if (error.message.starts_with(kErrorPlace)) return error;
  // Of several schemas the innermost one; nodes that expansion made have no pointer.
  const std::string* pointer = nullptr;
  for (const Literal literal : goals_[goal]) {
    const std::string& other = schemas_.nodes[literal / 2].pointer;
    if (pointer == nullptr || other.size() > pointer->size()) pointer = &other;
  }
  error.message = error_place(pointer == nullptr ? "" : *pointer) + error.message;
  return error;
}

Error Expander::located(RecordKind kind, RecordId record, Error error) const {
  GoalId first = kAnything;
  for (const auto& [goal, alternatives] : expanded_) {
    const auto& records =
        kind == RecordKind::kObject ? alternatives->objects : alternatives->arrays;
    const bool has = std::binary_search(records.begin(), records.end(), record);
    if (has && (first == kAnything || goal < first)) first = goal;
  }
  return located(first, std::move(error));
}

GoalId Expander::goal(std::vector<Literal> literals) {
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  std::erase_if(literals, [](Literal literal) {
    return literal == literal_of(kTrueNode, false) || literal == literal_of(kFalseNode, true);
  });
  for (size_t i = 0; i < literals.size(); ++i) {
    const Literal literal = literals[i];
    if (literal == literal_of(kTrueNode, true) || literal == literal_of(kFalseNode, false)) {
      return kNothing;
    }
    if (i > 0 && (literal ^ 1) == literals[i - 1]) return kNothing;
  }
  return goals_.intern(std::move(literals));
}

GoalId Expander::conjunction(GoalId a, GoalId b) {
  if (a == b || b == kAnything) return a;
  if (a == kAnything) return b;
  std::vector<Literal> both = goals_[a];
  both.insert(both.end(), goals_[b].begin(), goals_[b].end());
  return goal(std::move(both));
}

Status Expander::intersect(const Node& node, Alternatives& a, const Alternatives& b) {
  const bool product = a.objects.size() > 1 && b.objects.size() > 1;
  if (records_.intersect(a, b)) {
    if (product && a.objects.size() > 2) simplify(a);
    return {};
  }
  return at(node, "the combinations of its sub-schemas are too many");
}

Status Expander::unite(const Node& node, Alternatives& a, const Alternatives& b) {
  if (records_.unite(a, b, absorb_)) return {};
  return at(node, "the combinations of its sub-schemas are too many");
}

Status Expander::unite_all(const Node& node, std::vector<Alternatives> parts, Alternatives& out) {
  while (parts.size() > 1) {
    for (size_t i = 0; 2 * i < parts.size(); ++i) {
      if (i > 0) parts[i] = std::move(parts[2 * i]);
      if (2 * i + 1 < parts.size()) CHIMERE_CHECK_OK(unite(node, parts[i], parts[2 * i + 1]));
    }
    parts.resize((parts.size() + 1) / 2);
  }
  out = parts.empty() ? Alternatives() : std::move(parts[0]);
  return {};
}

Result<const Alternatives*> Expander::expand(GoalId goal) {
  if (const auto found = expanded_.find(goal); found != expanded_.end()) {
    return static_cast<const Alternatives*>(found->second.get());
  }
  if (WorkScope::exhausted()) return unsupported("it takes too much work");
  auto out = std::make_unique<Alternatives>(Records::anything());
  const std::vector<Literal> literals = goals_[goal];
  for (const Literal literal : literals) {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal, false));
    CHIMERE_CHECK_OK(intersect(schemas_.nodes[literal / 2], *out, *part));
  }
  // Simplification looks for goals without values, and may have come to this one.
  return static_cast<const Alternatives*>(
      expanded_.try_emplace(goal, std::move(out)).first->second.get());
}

Result<const Alternatives*> Expander::expand_literal(Literal literal, bool annotated) {
  const uint64_t key = static_cast<uint64_t>(literal) << 1 | (annotated ? 1 : 0);
  if (const auto found = literals_.find(key); found != literals_.end() && found->second) {
    return static_cast<const Alternatives*>(found->second.get());
  }
  const NodeId id = literal / 2;
  // Copied: expansion may add nodes.
  const Node node = schemas_.nodes[id];
  if (!literals_.emplace(key, nullptr).second) {
    return at(node, "it refers to itself without a property or an item in between");
  }
  if (literal % 2 == 0 && depth_ == 0) CHIMERE_CHECK_OK(expand_chain(id, annotated));
  if (depth_ >= kMaxDepth) {
    literals_.erase(key);
    return at(node, "schemas for the same value are nested too deeply");
  }
  ++depth_;
  const bool absorbed = absorb_;
  absorb_ = !annotated && node.unevaluated_items == kNone && node.unevaluated_properties == kNone;
  auto expanded = literal % 2 == 0 ? expand_node(node, annotated) : expand_negation(node);
  absorb_ = absorbed;
  --depth_;
  if (!expanded.ok()) {
    literals_.erase(key);
    return std::move(expanded).error();
  }
  auto& slot = literals_[key];
  slot = std::make_unique<Alternatives>(*std::move(expanded));
  return static_cast<const Alternatives*>(slot.get());
}

/// Expands what `node` consists of, the innermost schemas first: long chains of allOf, anyOf, oneOf
/// and $ref cost no recursion.
Status Expander::expand_chain(NodeId node, bool annotated) {
  std::vector<NodeId> order;
  std::unordered_set<NodeId> seen = {node};
  std::vector<std::pair<NodeId, bool>> stack = {{node, false}};
  while (!stack.empty()) {
    const auto [id, done] = stack.back();
    stack.pop_back();
    if (done) {
      order.push_back(id);
      continue;
    }
    stack.emplace_back(id, true);
    const bool below = annotated || schemas_.nodes[id].unevaluated_items != kNone ||
                       schemas_.nodes[id].unevaluated_properties != kNone;
    if (below) continue;
    for_each_in_place(schemas_.nodes[id], [&](NodeId child) {
      if (seen.insert(child).second) stack.emplace_back(child, false);
    });
  }
  if (order.size() < static_cast<size_t>(kMaxDepth) / 2) return {};
  order.pop_back();  // the node itself
  depth_ = 1;
  Status status;
  for (const NodeId id : order) {
    const auto expanded = expand_literal(literal_of(id, false), annotated);
    if (!expanded.ok()) {
      status = expanded.error();
      break;
    }
  }
  depth_ = 0;
  return status;
}

NodeId Expander::add_node(Node node) {
  schemas_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(schemas_.nodes.size() - 1);
}

NodeId Expander::const_node(ValueId value) {
  const auto [found, added] = const_nodes_.emplace(value, kNone);
  if (added) {
    Node node;
    node.has_enum = true;
    node.enumeration = {value};
    found->second = add_node(std::move(node));
  }
  return found->second;
}

GoalId Expander::excluding(std::vector<ValueId> values) {
  if (values.empty()) return kAnything;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  const auto [found, added] = excluding_.emplace(values, kNone);
  if (added) {
    Node node;
    node.has_enum = true;
    node.enumeration = std::move(values);
    found->second = add_node(std::move(node));
  }
  return goal_of(found->second, true);
}

/// The same conditions, as what "not" and "if" leave behind: nothing counts as evaluated.
Alternatives Expander::without_annotations(Alternatives alternatives) {
  for (RecordId& id : alternatives.objects) {
    ObjectRecord record = records_.object(id);
    for (ScopeId& scope : record.scopes) {
      ObjectScope copy = records_.object_scope(scope);
      copy.evaluates = copy.rest_evaluates = false;
      scope = records_.object_scope(std::move(copy));
    }
    std::sort(record.scopes.begin(), record.scopes.end());
    id = records_.object(std::move(record));
  }
  for (RecordId& id : alternatives.arrays) {
    ArrayRecord record = records_.array(id);
    record.evaluating_contains.clear();
    for (ScopeId& scope : record.scopes) {
      ArrayScope copy = records_.array_scope(scope);
      copy.evaluates = copy.rest_evaluates = false;
      scope = records_.array_scope(std::move(copy));
    }
    std::sort(record.scopes.begin(), record.scopes.end());
    id = records_.array(std::move(record));
  }
  std::sort(alternatives.objects.begin(), alternatives.objects.end());
  std::sort(alternatives.arrays.begin(), alternatives.arrays.end());
  return alternatives;
}

RecordId Expander::object_record(const Node& node) {
  ObjectRecord record;
  if (!node.properties.empty() || !node.pattern_properties.empty() ||
      node.additional_properties != kNone) {
    ObjectScope scope;
    for (const auto& [key, schema] : node.properties) {
      scope.named.emplace_back(key, goal_of(schema));
    }
    scope.order = node.order;
    for (const auto& [names, schema] : node.pattern_properties) {
      scope.patterns.emplace_back(names, goal_of(schema));
    }
    if (node.additional_properties != kNone) {
      scope.rest = goal_of(node.additional_properties);
      scope.rest_evaluates = true;
    }
    record.scopes = {records_.object_scope(std::move(scope))};
  }
  record.required = node.required;
  if (node.property_names != kNone) {
    const GoalId names = goal_of(node.property_names);
    if (names != kAnything) record.names = {names};
  }
  record.dependent = node.dependent_required;
  record.min = node.min_properties;
  record.max = node.max_properties;
  return records_.object(std::move(record));
}

RecordId Expander::array_record(const Node& node) {
  ArrayRecord record;
  if (!node.prefix_items.empty() || node.items != kNone) {
    ArrayScope scope;
    for (const NodeId item : node.prefix_items) scope.prefix.push_back(goal_of(item));
    if (node.items != kNone) {
      scope.rest = goal_of(node.items);
      scope.rest_evaluates = true;
    }
    record.scopes = {records_.array_scope(std::move(scope))};
  }
  if (node.contains != kNone) {
    if (node.min_contains > 0 || node.max_contains != kNoLimit) {
      record.some.push_back({0, goal_of(node.contains), node.min_contains, node.max_contains});
    }
    if (node.contains_evaluates) record.evaluating_contains = {node.contains};
  }
  record.min = node.min_items;
  record.max = node.max_items;
  record.unique = node.unique_items && node.max_items > 1;
  return records_.array(std::move(record));
}

/// The types and the keywords that do not apply further schemas to the same value.
Alternatives Expander::keywords_of(const Node& node) {
  if (node.is_false) return {};
  Alternatives out = Records::of_types(node.types);
  if (!out.strings.empty()) {
    StringSet& set = out.strings[0];
    for (const Regex pattern : node.patterns)
      set.language = arena_.intersect(set.language, pattern);
    set.min = node.min_length;
    set.max = node.max_length;
    if (set.min > set.max) out.strings.clear();
  }
  if (!out.numbers.empty()) {
    NumberSet& set = out.numbers[0].set;
    set.min = node.minimum;
    set.max = node.maximum;
    set.exclusive_min = node.minimum && node.exclusive_minimum;
    set.exclusive_max = node.maximum && node.exclusive_maximum;
    out.numbers[0].plain = node.plain_integers;
    if (node.multiple_of) set.multiple_of = {*node.multiple_of};
  }
  if (!out.objects.empty()) {
    out.objects.clear();
    const bool possible =
        node.min_properties <= node.max_properties && node.required.size() <= node.max_properties;
    if (possible) out.objects.push_back(is_free(node) ? kAnyRecord : object_record(node));
  }
  if (!out.arrays.empty()) {
    out.arrays.clear();
    if (node.min_items <= node.max_items) out.arrays.push_back(array_record(node));
  }
  return out;
}

Alternatives Expander::enumeration_of(const Node& node) {
  Alternatives out;
  std::vector<std::string> words;
  std::vector<Decimal> numbers;
  for (const ValueId id : node.enumeration) {
    const JsonValue& value = values_[id];
    switch (value.type) {
      case ValueType::kNull:
        out.null = true;
        break;
      case ValueType::kTrue:
        out.yes = true;
        break;
      case ValueType::kFalse:
        out.no = true;
        break;
      case ValueType::kString:
        words.push_back(values_.text(value.text));
        break;
      case ValueType::kNumber:
        if (const auto number = Decimal::parse(values_.text(value.text))) {
          numbers.push_back(*number);
        }
        break;
      case ValueType::kArray: {
        ArrayScope scope;
        scope.evaluates = false;
        for (const ValueId item : value.items) scope.prefix.push_back(goal_of(const_node(item)));
        scope.rest = kNothing;
        ArrayRecord record;
        record.min = record.max = value.items.size();
        if (!scope.prefix.empty()) record.scopes = {records_.array_scope(std::move(scope))};
        out.arrays.push_back(records_.array(std::move(record)));
        break;
      }
      case ValueType::kObject: {
        ObjectScope scope;
        scope.rest = kNothing;
        scope.evaluates = false;
        for (size_t i = 0; i < value.keys.size(); ++i) {
          scope.named.emplace_back(value.keys[i], goal_of(const_node(value.items[i])));
        }
        scope.order = values_.written_order(id);
        ObjectRecord record;
        record.scopes = {records_.object_scope(std::move(scope))};
        record.required = value.keys;
        out.objects.push_back(records_.object(std::move(record)));
        break;
      }
    }
  }
  if (!words.empty()) out.strings.push_back({arena_.words(std::move(words)), 0, kNoLimit});
  if (!numbers.empty()) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    out.numbers.emplace_back();
    out.numbers[0].values = std::move(numbers);
  }
  std::sort(out.objects.begin(), out.objects.end());
  std::sort(out.arrays.begin(), out.arrays.end());
  return out;
}

Result<Alternatives> Expander::expand_node(const Node& node, bool annotated) {
  Alternatives out = keywords_of(node);
  if (node.is_false) return out;
  if (node.has_enum) CHIMERE_CHECK_OK(intersect(node, out, enumeration_of(node)));
  const bool inner =
      annotated || node.unevaluated_properties != kNone || node.unevaluated_items != kNone;
  for (const NodeId part : node.all_of) {
    CHIMERE_TRY(const Alternatives* alternatives, expand_literal(literal_of(part, false), inner));
    CHIMERE_CHECK_OK(intersect(node, out, *alternatives));
  }
  if (!node.any_of.empty()) {
    CHIMERE_TRY(const Alternatives alternatives, any_of(node, inner));
    CHIMERE_CHECK_OK(intersect(node, out, alternatives));
  }
  if (!node.one_of.empty()) {
    CHIMERE_TRY(const Alternatives alternatives, one_of(node, inner));
    CHIMERE_CHECK_OK(intersect(node, out, alternatives));
  }
  if (node.negated != kNone) {
    CHIMERE_TRY(const Alternatives* alternatives,
                expand_literal(literal_of(node.negated, true), false));
    CHIMERE_CHECK_OK(
        intersect(node, out, inner ? without_annotations(*alternatives) : *alternatives));
  }
  if (node.if_schema != kNone) {
    CHIMERE_TRY(const Alternatives alternatives, conditional(node, inner));
    CHIMERE_CHECK_OK(intersect(node, out, alternatives));
  }
  CHIMERE_CHECK_OK(dependents(node, inner, out));
  CHIMERE_CHECK_OK(add_unevaluated(node, out));
  return out;
}

Result<Alternatives> Expander::any_of(const Node& node, bool annotated) {
  std::vector<Alternatives> parts;
  for (const NodeId branch : node.any_of) {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(branch, false), annotated));
    parts.push_back(*part);
  }
  Alternatives out;
  if (!annotated) {
    CHIMERE_CHECK_OK(unite_all(node, std::move(parts), out));
    return out;
  }
  // Which properties and items are evaluated depends on all branches that hold: one alternative
  // for each set of branches. More evaluated ones make it only more permissive, so that an
  // alternative need not say that the other branches do not hold.
  for (const Alternatives& part : parts) {
    Alternatives both = out;
    CHIMERE_CHECK_OK(intersect(node, both, part));
    CHIMERE_CHECK_OK(unite(node, out, part));
    CHIMERE_CHECK_OK(unite(node, out, both));
  }
  return out;
}

Result<Alternatives> Expander::one_of(const Node& node, bool annotated) {
  std::vector<const Alternatives*> branches;
  for (const NodeId branch : node.one_of) {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(branch, false), annotated));
    branches.push_back(part);
  }
  std::vector<Discriminators> discriminators;
  discriminators.reserve(branches.size());
  for (const Alternatives* branch : branches) discriminators.push_back(discriminators_of(*branch));
  const auto discriminated = [&](size_t i, size_t j) {
    return std::any_of(discriminators[i].begin(), discriminators[i].end(), [&](const auto& one) {
      const auto other = discriminators[j].find(one.first);
      return other != discriminators[j].end() &&
             std::find_first_of(one.second.begin(), one.second.end(), other->second.begin(),
                                other->second.end()) == one.second.end();
    });
  };
  std::vector<Alternatives> parts;
  for (size_t i = 0; i < branches.size(); ++i) {
    Alternatives part = *branches[i];
    for (size_t j = 0; j < branches.size(); ++j) {
      if (j == i || discriminated(i, j) || disjoint(part, *branches[j], kContradictionDepth))
        continue;
      CHIMERE_TRY(const Alternatives* rest,
                  expand_literal(literal_of(node.one_of[j], true), false));
      CHIMERE_CHECK_OK(intersect(node, part, annotated ? without_annotations(*rest) : *rest));
    }
    parts.push_back(std::move(part));
  }
  Alternatives out;
  CHIMERE_CHECK_OK(unite_all(node, std::move(parts), out));
  return out;
}

Result<Alternatives> Expander::conditional(const Node& node, bool annotated) {
  const bool free = node.then_schema == kNone && node.else_schema == kNone;
  if (free && !annotated) return Records::anything();
  CHIMERE_TRY(const Alternatives* condition,
              expand_literal(literal_of(node.if_schema, false), annotated));
  CHIMERE_TRY(const Alternatives* otherwise,
              expand_literal(literal_of(node.if_schema, true), false));
  Alternatives out = *condition;
  if (node.then_schema != kNone) {
    CHIMERE_TRY(const Alternatives* part,
                expand_literal(literal_of(node.then_schema, false), annotated));
    CHIMERE_CHECK_OK(intersect(node, out, *part));
  }
  Alternatives rest = annotated ? without_annotations(*otherwise) : *otherwise;
  if (node.else_schema != kNone) {
    CHIMERE_TRY(const Alternatives* part,
                expand_literal(literal_of(node.else_schema, false), annotated));
    CHIMERE_CHECK_OK(intersect(node, rest, *part));
  }
  CHIMERE_CHECK_OK(unite(node, out, rest));
  return out;
}

Status Expander::dependents(const Node& node, bool annotated, Alternatives& out) {
  for (const auto& [key, schema] : node.dependent_schemas) {
    CHIMERE_TRY(const Alternatives* part, expand_literal(literal_of(schema, false), annotated));
    Alternatives with = object_has(key, kAnything);
    CHIMERE_CHECK_OK(intersect(node, with, *part));
    Alternatives either = Records::of_types(kAllTypes & ~kObjectBit);
    CHIMERE_CHECK_OK(unite(node, either, object_lacks(key)));
    CHIMERE_CHECK_OK(unite(node, either, with));
    CHIMERE_CHECK_OK(intersect(node, out, either));
  }
  return {};
}

Status Expander::add_unevaluated(const Node& node, Alternatives& out) {
  if (node.unevaluated_properties != kNone) {
    for (RecordId& id : out.objects) {
      ObjectRecord record = records_.object(id);
      ObjectScope scope;
      scope.covers = record.scopes;
      scope.rest = goal_of(node.unevaluated_properties);
      scope.rest_evaluates = true;
      record.scopes.push_back(records_.object_scope(std::move(scope)));
      std::sort(record.scopes.begin(), record.scopes.end());
      record.scopes.erase(std::unique(record.scopes.begin(), record.scopes.end()),
                          record.scopes.end());
      id = records_.object(std::move(record));
    }
    std::sort(out.objects.begin(), out.objects.end());
  }
  if (node.unevaluated_items != kNone) {
    for (RecordId& id : out.arrays) {
      ArrayRecord record = records_.array(id);
      ArrayScope scope;
      scope.covers = record.scopes;
      scope.rest = goal_of(node.unevaluated_items);
      if (!record.evaluating_contains.empty()) {
        Node either;
        either.any_of = record.evaluating_contains;
        either.any_of.push_back(node.unevaluated_items);
        either.pointer = node.pointer;
        scope.rest = goal_of(add_node(std::move(either)));
      }
      scope.rest_evaluates = true;
      record.scopes.push_back(records_.array_scope(std::move(scope)));
      std::sort(record.scopes.begin(), record.scopes.end());
      record.scopes.erase(std::unique(record.scopes.begin(), record.scopes.end()),
                          record.scopes.end());
      id = records_.array(std::move(record));
    }
    std::sort(out.arrays.begin(), out.arrays.end());
  }
  return {};
}

bool Expander::matches(Regex names, Symbol key) {
  const uint64_t id = static_cast<uint64_t>(names) << 32 | key;
  const auto [found, added] = matched_.emplace(id, false);
  if (added) found->second = arena_.matches(names, values_.text(key));
  return found->second;
}

bool Expander::evaluated(ScopeId scope, Symbol key) {
  const ObjectScope& at = records_.object_scope(scope);
  if (!at.evaluates) return false;
  if (at.rest_evaluates) return true;
  const auto named = std::lower_bound(at.named.begin(), at.named.end(), std::pair(key, GoalId{0}));
  if (named != at.named.end() && named->first == key) return true;
  return std::any_of(at.patterns.begin(), at.patterns.end(),
                     [&](const auto& pattern) { return matches(pattern.first, key); });
}

GoalId Expander::property_goal(RecordId record, Symbol key) {
  const uint64_t id = static_cast<uint64_t>(record) << 32 | key;
  if (const auto found = property_goals_.find(id); found != property_goals_.end()) {
    return found->second;
  }
  GoalId out = kAnything;
  for (const ScopeId scope : records_.object(record).scopes) {
    const ObjectScope& at = records_.object_scope(scope);
    bool additional = true;
    const auto named =
        std::lower_bound(at.named.begin(), at.named.end(), std::pair(key, GoalId{0}));
    if (named != at.named.end() && named->first == key) {
      out = conjunction(out, named->second);
      additional = false;
    }
    for (const auto& [names, goal] : at.patterns) {
      if (!matches(names, key)) continue;
      out = conjunction(out, goal);
      additional = false;
    }
    for (const ScopeId cover : at.covers) additional = additional && !evaluated(cover, key);
    if (additional) out = conjunction(out, at.rest);
  }
  property_goals_.emplace(id, out);
  return out;
}

GoalId Expander::item_goal(RecordId record, uint64_t index) {
  GoalId out = kAnything;
  for (const ScopeId scope : records_.array(record).scopes) {
    const ArrayScope& at = records_.array_scope(scope);
    if (index < at.prefix.size()) {
      out = conjunction(out, at.prefix[index]);
      continue;
    }
    bool rest = true;
    for (const ScopeId cover : at.covers) {
      const ArrayScope& by = records_.array_scope(cover);
      rest = rest && (!by.evaluates || (!by.rest_evaluates && index >= by.prefix.size()));
    }
    if (rest) out = conjunction(out, at.rest);
  }
  return out;
}

uint64_t Expander::uniform_from(RecordId record) const {
  uint64_t out = 0;
  for (const ScopeId scope : records_.array(record).scopes) {
    out = std::max<uint64_t>(out, records_.array_scope(scope).prefix.size());
    for (const ScopeId cover : records_.array_scope(scope).covers) {
      out = std::max<uint64_t>(out, records_.array_scope(cover).prefix.size());
    }
  }
  for (const SomeItems& some : records_.array(record).some) out = std::max(out, some.from);
  return out;
}

}  // namespace chimere::constraints::json_schema
