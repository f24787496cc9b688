// What a value may be, as a union of simple records for each JSON type.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_ALTERNATIVES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_ALTERNATIVES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraints/decimal.h"
#include "constraints/hash.h"
#include "constraints/interner.h"
#include "constraints/json_number.h"
#include "constraints/json_schema/node.h"
#include "constraints/json_schema/values.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

inline uint64_t hash_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

struct ListHash {
  uint64_t operator()(const std::vector<uint32_t>& list) const {
    uint64_t hash = list.size();
    for (const uint32_t item : list) hash = hash_mix(hash, item);
    return hash;
  }
};
using Lists = Interner<std::vector<uint32_t>, ListHash>;

/// A conjunction of schemas and negated schemas: an ascending list of literals in Goals. 0 is
/// "anything", 1 is "nothing".
using GoalId = uint32_t;
inline constexpr GoalId kAnything = 0;
inline constexpr GoalId kNothing = 1;

/// A schema (even) or its negation (odd).
using Literal = uint32_t;
inline Literal literal_of(NodeId node, bool negated) { return 2 * node + (negated ? 1 : 0); }

/// Strings of a language with a number of characters in bounds.
struct StringSet {
  Regex language = 2;  ///< RegexArena::any()
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  bool operator==(const StringSet&) const = default;
};

/// Numbers of a set, or a few single ones.
struct NumberAlternative {
  NumberSet set;
  std::optional<std::vector<Decimal>> values;  ///< ascending; `set` is not looked at
  bool plain = false;                          ///< without fraction and exponent
  bool contains(const Decimal& value) const;
  /// Whether the machine of the set reads this text, which has the value.
  bool contains(const Decimal& value, std::string_view text) const;
};

using ScopeId = uint32_t;

/// What one schema says about the properties of an object: a key has to satisfy the goals of its
/// name and of all patterns that it matches, or else `rest`.
struct ObjectScope {
  std::vector<std::pair<Symbol, GoalId>> named;  ///< ascending
  std::vector<std::pair<Regex, GoalId>> patterns;
  GoalId rest = kAnything;
  bool evaluates = true;  ///< whether unevaluatedProperties takes notice of `named` and so on
  bool rest_evaluates = false;
  std::vector<ScopeId> covers;  ///< of unevaluatedProperties: keys that one of these evaluates are
                                ///< free, the others have to satisfy `rest`
  std::vector<Symbol> order;    ///< names that the schema declares, as they are written
  bool operator==(const ObjectScope&) const = default;
};

/// Some property in a set of names satisfies a goal.
struct SomeProperty {
  Regex names = 2;
  GoalId goal = kAnything;
  bool operator==(const SomeProperty&) const = default;
};

/// A conjunction of conditions on an object.
struct ObjectRecord {
  std::vector<ScopeId> scopes;   ///< ascending
  std::vector<Symbol> required;  ///< ascending
  std::vector<GoalId> names;     ///< of propertyNames, ascending
  std::vector<SomeProperty> some;
  std::vector<std::pair<Symbol, std::vector<Symbol>>> dependent;  ///< dependentRequired
  std::vector<ValueId> differs;  ///< objects that it must not be equal to, ascending
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  bool operator==(const ObjectRecord&) const = default;
};

/// What one schema says about the items of an array.
struct ArrayScope {
  std::vector<GoalId> prefix;
  GoalId rest = kAnything;
  bool evaluates = true;
  bool rest_evaluates = false;
  std::vector<ScopeId> covers;  ///< of unevaluatedItems, like ObjectScope::covers
  bool operator==(const ArrayScope&) const = default;
};

/// A number of items from an index on satisfies a goal.
struct SomeItems {
  uint64_t from = 0;
  GoalId goal = kAnything;
  uint64_t min = 1;
  uint64_t max = kNoLimit;
  bool operator==(const SomeItems&) const = default;
};

/// A conjunction of conditions on an array.
struct ArrayRecord {
  std::vector<ScopeId> scopes;  ///< ascending
  std::vector<SomeItems> some;
  uint64_t min = 0;
  uint64_t max = kNoLimit;
  bool unique = false;
  std::vector<ValueId> differs;             ///< arrays that it must not be equal to, ascending
  std::vector<NodeId> evaluating_contains;  ///< whose items count as evaluated, ascending
  bool operator==(const ArrayRecord&) const = default;
};

struct RecordHash {
  uint64_t operator()(const ObjectScope& scope) const;
  uint64_t operator()(const ArrayScope& scope) const;
  uint64_t operator()(const ObjectRecord& record) const;
  uint64_t operator()(const ArrayRecord& record) const;
};

using RecordId = uint32_t;
inline constexpr RecordId kAnyRecord = 0;  ///< without conditions

/// A union: the value is one of these.
struct Alternatives {
  bool null = false, yes = false, no = false;
  std::vector<StringSet> strings;
  std::vector<NumberAlternative> numbers;
  std::vector<RecordId> objects;  ///< ascending
  std::vector<RecordId> arrays;   ///< ascending

  bool empty() const {
    return !null && !yes && !no && strings.empty() && numbers.empty() && objects.empty() &&
           arrays.empty();
  }
  size_t size() const { return strings.size() + numbers.size() + objects.size() + arrays.size(); }
};

/// Scopes and records, each stored once, and the operations on Alternatives.
class Records {
 public:
  explicit Records(RegexArena& arena);

  static Alternatives anything();
  /// Values of the types of a TypeBit set.
  static Alternatives of_types(uint8_t types);

  RecordId object(ObjectRecord record);
  RecordId array(ArrayRecord record);
  ScopeId object_scope(ObjectScope scope) { return object_scopes_.intern(std::move(scope)); }
  ScopeId array_scope(ArrayScope scope) { return array_scopes_.intern(std::move(scope)); }
  const ObjectRecord& object(RecordId id) const { return objects_[id]; }
  const ArrayRecord& array(RecordId id) const { return arrays_[id]; }
  const ObjectScope& object_scope(ScopeId id) const { return object_scopes_[id]; }
  const ArrayScope& array_scope(ScopeId id) const { return array_scopes_[id]; }

  /// False if the result would have more than kMaxAlternatives or take too much work.
  [[nodiscard]] bool intersect(Alternatives& a, const Alternatives& b);
  /// `absorb`: a record without conditions replaces all others.
  [[nodiscard]] bool unite(Alternatives& a, const Alternatives& b, bool absorb = true);

  /// kNone if the two contradict each other by their counts alone.
  RecordId intersect_objects(RecordId a, RecordId b);
  RecordId intersect_arrays(RecordId a, RecordId b);

  static constexpr size_t kMaxAlternatives = 20'000;
  /// Pairs of records in all intersections.
  static constexpr size_t kMaxPairs = 60'000;
  /// Pairs of records in one intersection.
  static constexpr size_t kMaxPairsAtOnce = 30'000;

 private:
  RegexArena& arena_;
  size_t pairs_ = 0;
  Interner<ObjectScope, RecordHash> object_scopes_;
  Interner<ArrayScope, RecordHash> array_scopes_;
  Interner<ObjectRecord, RecordHash> objects_;
  Interner<ArrayRecord, RecordHash> arrays_;
};

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_ALTERNATIVES_H_
