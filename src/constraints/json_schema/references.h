// Where the $ref, $id and $anchor of a schema document lead.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_REFERENCES_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_REFERENCES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constraints/json_schema/values.h"

namespace chimere::constraints::json_schema {

enum class Dialect : uint8_t { kDraft4, kDraft6, kDraft7, kDraft2019, kDraft2020 };

using ResourceId = uint32_t;

/// A schema with a URI of its own.
struct Resource {
  std::string uri;
  ValueId root = kNone;
  Dialect dialect = Dialect::kDraft2020;
  bool declared = false;  ///< $schema names the dialect
  bool supported = true;  ///< false: $schema names an older dialect than those
};

/// A schema and the resource it belongs to.
struct Place {
  ValueId value = kNone;
  ResourceId resource = 0;
};

/// The references of one document. Other documents are never fetched.
class References {
 public:
  static References create(const Values& values, ValueId root);

  /// The target of a $ref in `from`. Errors: kUnsupported for another document, kInvalidArgument
  /// for a place that does not exist.
  Result<Place> resolve(ResourceId from, std::string_view reference) const;
  /// The target of a $dynamicRef (or, for "#", of a $recursiveRef) where it is the same for all
  /// dynamic scopes. Errors: like resolve(), kUnsupported where it is not.
  Result<Place> resolve_dynamic(ResourceId from, std::string_view reference) const;
  Result<Place> resolve_recursive(ResourceId from) const;

  /// The resource of a sub-schema that stands in a schema of `parent`.
  ResourceId resource_of(ValueId value, ResourceId parent) const;
  const Resource& operator[](ResourceId id) const { return resources_[id]; }

 private:
  explicit References(const Values& values) : values_(&values) {}
  void index(ValueId root);
  ResourceId add_resource(ValueId value, ResourceId parent);
  void add_anchors(ValueId value, ResourceId resource);

  const Values* values_;
  std::vector<Resource> resources_;
  std::unordered_map<std::string, ResourceId> by_uri_;
  std::unordered_map<uint64_t, ResourceId> by_value_;        ///< by (value, parent resource)
  std::unordered_map<std::string, ValueId> anchors_;         ///< by "resource#name"
  std::unordered_map<std::string, uint32_t> dynamic_count_;  ///< of a $dynamicAnchor
  std::unordered_map<std::string, ValueId> dynamic_;         ///< by "resource#name"
  bool recursive_anchor_ = false;
};

/// Calls visit(keyword, token, child) for the sub-schemas of an object. `token` is the key or index
/// below the keyword, or empty.
template <typename Visit>
void for_each_subschema(const Values& values, ValueId schema, Visit&& visit) {
  const JsonValue& object = values[schema];
  if (object.type != ValueType::kObject) return;
  for (size_t i = 0; i < object.keys.size(); ++i) {
    const std::string& keyword = values.text(object.keys[i]);
    const JsonValue& value = values[object.items[i]];
    const bool map = keyword == "properties" || keyword == "patternProperties" ||
                     keyword == "$defs" || keyword == "definitions" ||
                     keyword == "dependentSchemas" || keyword == "dependencies";
    const bool one = keyword == "items" || keyword == "additionalItems" ||
                     keyword == "additionalProperties" || keyword == "propertyNames" ||
                     keyword == "contains" || keyword == "unevaluatedProperties" ||
                     keyword == "unevaluatedItems" || keyword == "not" || keyword == "if" ||
                     keyword == "then" || keyword == "else" || keyword == "contentSchema";
    const bool list = keyword == "allOf" || keyword == "anyOf" || keyword == "oneOf" ||
                      keyword == "prefixItems" || keyword == "items";
    if (map && value.type == ValueType::kObject) {
      for (size_t k = 0; k < value.keys.size(); ++k) {
        visit(keyword, values.text(value.keys[k]), value.items[k]);
      }
    } else if (list && value.type == ValueType::kArray) {
      for (size_t k = 0; k < value.items.size(); ++k) {
        visit(keyword, std::to_string(k), value.items[k]);
      }
    } else if (one) {
      visit(keyword, std::string(), object.items[i]);
    }
  }
}

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_REFERENCES_H_
