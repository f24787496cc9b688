// Schemas to unions of records.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_EXPANSION_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_EXPANSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "constraints/json_schema/alternatives.h"
#include "constraints/json_schema/node.h"
#include "constraints/json_schema/values.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

/// Expands conjunctions of schemas, one level of a document at a time: the schemas of properties
/// and items stay goals. Every result is kept.
class Expander {
 public:
  Expander(Schemas& schemas, Values& values, RegexArena& arena);

  GoalId goal(std::vector<Literal> literals);
  GoalId goal_of(NodeId node, bool negated = false) { return goal({literal_of(node, negated)}); }
  GoalId conjunction(GoalId a, GoalId b);
  const std::vector<Literal>& literals(GoalId goal) const { return goals_[goal]; }
  uint32_t goals() const { return goals_.size(); }

  /// Errors: kUnsupported, with the JSON pointer: a combination that is not supported, a budget
  /// exceeded. The pointer stays valid.
  Result<const Alternatives*> expand(GoalId goal);

  /// The error with the JSON pointer of the schema that a goal, or a record of one, comes from;
  /// unchanged if it has one.
  Error located(GoalId goal, Error error) const;
  enum class RecordKind { kObject, kArray };
  Error located(RecordKind kind, RecordId record, Error error) const;

  /// What a property of this name has to satisfy.
  GoalId property_goal(RecordId record, Symbol key);
  /// What the item at an index has to satisfy.
  GoalId item_goal(RecordId record, uint64_t index);
  /// The first index from which on item_goal() is the same.
  uint64_t uniform_from(RecordId record) const;
  /// Whether some pattern of a scope of the record matches the key.
  bool matches(Regex names, Symbol key);

  /// The schema that only this value satisfies.
  NodeId const_node(ValueId value);
  /// The goal of all values but these.
  GoalId excluding(std::vector<ValueId> values);

  Records& records() { return records_; }
  const Records& records() const { return records_; }
  Values& values() { return values_; }
  RegexArena& arena() { return arena_; }

 private:
  struct Key {
    Literal literal = 0;
    bool annotated = false;  ///< an unevaluated* keyword looks at which branches hold
  };

  Result<const Alternatives*> expand_literal(Literal literal, bool annotated);
  Status expand_chain(NodeId node, bool annotated);
  Result<Alternatives> expand_node(const Node& node, bool annotated);
  Result<Alternatives> expand_negation(const Node& node);
  Status negate_object_keywords(const Node& node, Alternatives& out);
  Status negate_array_keywords(const Node& node, Alternatives& out);
  Status negate_applicators(const Node& node, Alternatives& out);
  Alternatives keywords_of(const Node& node);
  RecordId object_record(const Node& node);
  RecordId array_record(const Node& node);
  Alternatives enumeration_of(const Node& node);
  Alternatives negated_enumeration(const Node& node);
  Alternatives without_annotations(Alternatives alternatives);
  Result<Alternatives> any_of(const Node& node, bool annotated);
  Result<Alternatives> one_of(const Node& node, bool annotated);
  Result<Alternatives> conditional(const Node& node, bool annotated);
  Status dependents(const Node& node, bool annotated, Alternatives& out);
  Status add_unevaluated(const Node& node, Alternatives& out);

  Alternatives object_lacks(Symbol key);
  Alternatives object_has(Symbol key, GoalId goal);
  Regex other_names(const Node& node);
  NodeId add_node(Node node);

  /// The words that required properties are restricted to.
  using Discriminators = std::map<Symbol, std::vector<std::string>>;
  Discriminators discriminators_of(const Alternatives& alternatives);
  bool disjoint(const Alternatives& a, const Alternatives& b, int depth);
  bool certainly_empty(const Alternatives& alternatives, int depth);
  bool certainly_empty(GoalId goal, int depth);
  bool evaluated(ScopeId scope, Symbol key);
  void simplify(Alternatives& alternatives);
  RecordId simplified(RecordId id);
  bool implies(const ObjectRecord& weaker, const ObjectRecord& stronger) const;

  Status intersect(const Node& node, Alternatives& a, const Alternatives& b);
  Status unite(const Node& node, Alternatives& a, const Alternatives& b);
  Status unite_all(const Node& node, std::vector<Alternatives> parts, Alternatives& out);
  static Error at(const Node& node, const std::string& sentence);

  Schemas& schemas_;
  Values& values_;
  RegexArena& arena_;
  Records records_;
  Lists goals_;
  std::unordered_map<uint64_t, std::unique_ptr<Alternatives>> literals_;  ///< null: in progress
  std::unordered_map<GoalId, std::unique_ptr<Alternatives>> expanded_;
  std::unordered_map<uint64_t, GoalId> property_goals_;
  std::unordered_map<uint64_t, bool> matched_;
  std::unordered_map<GoalId, bool> empty_;
  std::unordered_map<RecordId, RecordId> simplified_;
  std::unordered_map<ValueId, NodeId> const_nodes_;
  std::map<std::vector<ValueId>, NodeId> excluding_;
  int depth_ = 0;
  /// Levels of properties and items that the search for contradictions looks into.
  static constexpr int kContradictionDepth = 2;
  int looking_ = 0;     ///< nested searches for contradictions
  bool absorb_ = true;  ///< of Records::unite()
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_EXPANSION_H_
