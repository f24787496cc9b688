// Schemas as records of their keywords.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_NODE_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_NODE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraints/decimal.h"
#include "constraints/json_schema/values.h"
#include "constraints/regex.h"

namespace chimere::constraints::json_schema {

/// Errors begin with the place in the schema.
inline constexpr std::string_view kErrorPlace = "JSON schema, at ";
inline std::string error_place(std::string_view pointer) {
  std::string out(kErrorPlace);
  if (pointer.empty()) return out + "the root: ";
  return out.append("\"").append(pointer).append("\": ");
}

/// An index of Schemas::nodes.
using NodeId = uint32_t;

/// Bits of a set of types. "number" is kInteger | kFraction.
enum TypeBit : uint8_t {
  kNullBit = 1,
  kBooleanBit = 2,
  kIntegerBit = 4,
  kFractionBit = 8,
  kStringBit = 16,
  kArrayBit = 32,
  kObjectBit = 64,
  kAllTypes = 127,
};

inline constexpr uint64_t kNoLimit = UINT64_MAX;

/// One schema, with its sub-schemas as nodes. Absent sub-schemas are kNone.
struct Node {
  bool is_false = false;  ///< the schema `false`; `true` is a node without keywords
  uint8_t types = kAllTypes;
  bool has_enum = false;
  std::vector<ValueId> enumeration;  ///< of enum or const

  bool plain_integers = false;  ///< draft 4: 1.0 is no integer

  std::optional<Decimal> minimum, maximum;
  bool exclusive_minimum = false, exclusive_maximum = false;
  std::optional<Decimal> multiple_of;

  uint64_t min_length = 0, max_length = kNoLimit;
  std::vector<Regex> patterns;  ///< of pattern and format

  std::vector<std::pair<Symbol, NodeId>> properties;  ///< ascending
  std::vector<Symbol> order;                          ///< of `properties` as they are written
  std::vector<std::pair<Regex, NodeId>> pattern_properties;
  NodeId additional_properties = kNone;
  NodeId property_names = kNone;
  NodeId unevaluated_properties = kNone;
  std::vector<Symbol> required;  ///< ascending
  uint64_t min_properties = 0, max_properties = kNoLimit;
  std::vector<std::pair<Symbol, std::vector<Symbol>>> dependent_required;
  std::vector<std::pair<Symbol, NodeId>> dependent_schemas;

  std::vector<NodeId> prefix_items;
  NodeId items = kNone;  ///< behind the prefix
  NodeId contains = kNone;
  uint64_t min_contains = 1, max_contains = kNoLimit;
  bool contains_evaluates = false;  ///< for unevaluatedItems: since draft 2020-12
  NodeId unevaluated_items = kNone;
  uint64_t min_items = 0, max_items = kNoLimit;
  bool unique_items = false;

  std::vector<NodeId> all_of;  ///< with $ref
  std::vector<NodeId> any_of, one_of;
  NodeId negated = kNone;
  NodeId if_schema = kNone, then_schema = kNone, else_schema = kNone;

  std::string pointer;  ///< where it was found first
};

/// A loaded document. Node 0 is `true`, node 1 is `false`.
struct Schemas {
  std::vector<Node> nodes;
  NodeId root = 0;
};
inline constexpr NodeId kTrueNode = 0;
inline constexpr NodeId kFalseNode = 1;

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_NODE_H_
