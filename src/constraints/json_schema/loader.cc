#include "constraints/json_schema/loader.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "constraints/formats.h"
#include "constraints/json_schema/references.h"
#include "constraints/json_schema/uri.h"

namespace chimere::constraints::json_schema {

namespace {

constexpr size_t kMaxNodes = 2'000'000;

class Loader {
 public:
  Loader(Values& values, RegexArena& arena, const LoadOptions& options, References references)
      : values_(values), arena_(arena), options_(options), references_(std::move(references)) {}

  Result<Schemas> load(ValueId root) {
    schemas_.nodes.resize(2);
    schemas_.nodes[kFalseNode].is_false = true;
    schemas_.root = node_of({root, 0}, kNone, {});
    // Nodes are appended while this runs; a node's fields are written back at the end.
    while (done_ < pending_.size()) {
      const Pending current = pending_[done_++];
      if (schemas_.nodes.size() > kMaxNodes) {
        return invalid_argument(error_place("") + "the schema is too large");
      }
      Node node;
      const Status status = load_node(current, node);
      if (!status.ok()) {
        Error error = status.error();
        std::string pointer = pointer_of(current.node);
        if (!keyword_.empty()) pointer += "/" + escape_pointer_token(keyword_);
        error.message = error_place(pointer) + error.message;
        return error;
      }
      schemas_.nodes[current.node] = std::move(node);
    }
    return std::move(schemas_);
  }

 private:
  struct Pending {
    Place place;
    NodeId node = 0;
  };
  struct Origin {
    NodeId parent = kNone;
    std::string token;  ///< the pointer from the parent
  };

  NodeId node_of(Place place, NodeId parent, std::string token) {
    const JsonValue& value = values_[place.value];
    if (value.type == ValueType::kTrue) return kTrueNode;
    if (value.type == ValueType::kFalse) return kFalseNode;
    const uint64_t key = static_cast<uint64_t>(place.resource) << 32 | place.value;
    const auto [found, added] = known_.emplace(key, static_cast<NodeId>(schemas_.nodes.size()));
    if (added) {
      schemas_.nodes.emplace_back();
      origins_.resize(schemas_.nodes.size());
      origins_.back() = {parent, std::move(token)};
      pending_.push_back({place, found->second});
    }
    return found->second;
  }

  std::string pointer_of(NodeId node) const {
    std::vector<const std::string*> tokens;
    for (; node != kNone && tokens.size() < 100; node = origins_[node].parent) {
      tokens.push_back(&origins_[node].token);
    }
    std::string out;
    for (auto it = tokens.rbegin(); it != tokens.rend(); ++it) out += **it;
    return out;
  }

  Result<NodeId> child(const Pending& at, std::string_view keyword, ValueId value,
                       const std::string* token = nullptr) {
    const ValueType type = values_[value].type;
    std::string path = "/" + escape_pointer_token(keyword);
    if (token != nullptr) path += "/" + escape_pointer_token(*token);
    if (type != ValueType::kObject && type != ValueType::kTrue && type != ValueType::kFalse) {
      return invalid_argument("\"" + path.substr(1) + "\" must be a schema");
    }
    const ResourceId resource = references_.resource_of(value, at.place.resource);
    return node_of({value, resource}, at.node, std::move(path));
  }

  Status children(const Pending& at, std::string_view keyword, ValueId value,
                  std::vector<NodeId>& out) {
    if (values_[value].type != ValueType::kArray) return must_be(keyword, "an array of schemas");
    for (size_t i = 0; i < values_[value].items.size(); ++i) {
      const std::string token = std::to_string(i);
      CHIMERE_TRY(const NodeId node, child(at, keyword, values_[value].items[i], &token));
      out.push_back(node);
    }
    return {};
  }

  static Error must_be(std::string_view keyword, std::string_view what) {
    return invalid_argument("\"" + std::string(keyword) + "\" must be " + std::string(what));
  }

  Result<Decimal> number(std::string_view keyword, ValueId value) const {
    if (values_[value].type != ValueType::kNumber) return must_be(keyword, "a number");
    const auto decimal = Decimal::parse(values_.text(values_[value].text));
    if (!decimal) return must_be(keyword, "a number of moderate size");
    return *decimal;
  }

  Result<uint64_t> count(std::string_view keyword, ValueId value) const {
    constexpr double kHuge = 1e15;
    CHIMERE_TRY(const Decimal decimal, number(keyword, value));
    if (decimal.negative || !decimal.is_integer()) return must_be(keyword, "a count");
    const double size = decimal.to_double();
    return size > kHuge ? uint64_t{1} << 50 : static_cast<uint64_t>(size);
  }

  Result<std::vector<Symbol>> names(std::string_view keyword, ValueId value) const {
    const JsonValue& list = values_[value];
    if (list.type != ValueType::kArray) return must_be(keyword, "an array of strings");
    std::vector<Symbol> out;
    for (const ValueId item : list.items) {
      if (values_[item].type != ValueType::kString) return must_be(keyword, "an array of strings");
      out.push_back(values_[item].text);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  Status load_types(ValueId value, Node& node) const;
  Status load_node(const Pending& at, Node& node);
  Status load_keyword(const Pending& at, const std::string& keyword, ValueId value, Node& node);
  Status load_number_keyword(const std::string& keyword, ValueId value, Node& node);
  Status load_string_keyword(const std::string& keyword, ValueId value, Node& node);
  Status load_object_keyword(const Pending& at, const std::string& keyword, ValueId value,
                             Node& node);
  Status load_array_keyword(const Pending& at, const std::string& keyword, ValueId value,
                            Node& node);
  Status load_dependencies(const Pending& at, const std::string& keyword, ValueId value,
                           Node& node);
  Status load_reference(const Pending& at, const std::string& keyword, ValueId value, Node& node);

  bool is_since(const Pending& at, Dialect first) const {
    const Resource& resource = references_[at.place.resource];
    return !resource.declared || resource.dialect >= first;
  }
  bool is_until(const Pending& at, Dialect last) const {
    const Resource& resource = references_[at.place.resource];
    return !resource.declared || resource.dialect <= last;
  }

  Values& values_;
  RegexArena& arena_;
  const LoadOptions& options_;
  References references_;
  Schemas schemas_;
  std::vector<Origin> origins_ = std::vector<Origin>(2);
  std::unordered_map<uint64_t, NodeId> known_;
  std::vector<Pending> pending_;
  size_t done_ = 0;
  std::string keyword_;  ///< that is read; empty: none
};

Status Loader::load_types(ValueId value, Node& node) const {
  std::vector<ValueId> list = {value};
  if (values_[value].type == ValueType::kArray) list = values_[value].items;
  node.types = 0;
  for (const ValueId item : list) {
    const std::string name =
        values_[item].type == ValueType::kString ? values_.text(values_[item].text) : "";
    if (name == "null") {
      node.types |= kNullBit;
    } else if (name == "boolean") {
      node.types |= kBooleanBit;
    } else if (name == "integer") {
      node.types |= kIntegerBit;
    } else if (name == "number") {
      node.types |= kIntegerBit | kFractionBit;
    } else if (name == "string") {
      node.types |= kStringBit;
    } else if (name == "array") {
      node.types |= kArrayBit;
    } else if (name == "object") {
      node.types |= kObjectBit;
    } else {
      return must_be("type",
                     "one or several of null, boolean, integer, number, string, array, "
                     "object");
    }
  }
  return {};
}

Status Loader::load_node(const Pending& at, Node& node) {
  const JsonValue& value = values_[at.place.value];
  node.pointer = pointer_of(at.node);
  keyword_.clear();
  if (value.type != ValueType::kObject) return invalid_argument("a schema must be an object");
  const Symbol ref = values_.find_symbol("$ref");
  const Resource& resource = references_[at.place.resource];
  if (resource.dialect <= Dialect::kDraft7 && values_.member(at.place.value, ref) != kNone) {
    // Up to draft 7, the keywords beside $ref have no meaning.
    keyword_ = "$ref";
    return load_reference(at, "$ref", values_.member(at.place.value, ref), node);
  }
  for (size_t i = 0; i < value.keys.size(); ++i) {
    keyword_ = values_.text(value.keys[i]);
    CHIMERE_CHECK_OK(load_keyword(at, keyword_, value.items[i], node));
  }
  node.plain_integers = resource.dialect == Dialect::kDraft4 && (node.types & kFractionBit) == 0;
  return {};
}

Status Loader::load_keyword(const Pending& at, const std::string& keyword, ValueId value,
                            Node& node) {
  const bool names_dialect = keyword == "$schema" && values_[value].type == ValueType::kString;
  if (names_dialect && !references_[at.place.resource].supported) {
    return unsupported("the schema names " + values_.text(values_[value].text) +
                       "; supported are drafts 4 to 2020-12");
  }
  if (keyword == "type") return load_types(value, node);
  if (keyword == "enum") {
    if (values_[value].type != ValueType::kArray) return must_be(keyword, "an array");
    if (node.has_enum) {
      std::erase_if(node.enumeration, [&](ValueId v) {
        const auto& items = values_[value].items;
        return std::find(items.begin(), items.end(), v) == items.end();
      });
    } else {
      node.enumeration = values_[value].items;
      std::sort(node.enumeration.begin(), node.enumeration.end());
      node.enumeration.erase(std::unique(node.enumeration.begin(), node.enumeration.end()),
                             node.enumeration.end());
    }
    node.has_enum = true;
    return {};
  }
  if (keyword == "const" && is_since(at, Dialect::kDraft6)) {
    const bool other = node.has_enum && std::find(node.enumeration.begin(), node.enumeration.end(),
                                                  value) == node.enumeration.end();
    node.enumeration.clear();
    if (!other) node.enumeration.push_back(value);
    node.has_enum = true;
    return {};
  }
  if (keyword == "allOf") return children(at, keyword, value, node.all_of);
  if (keyword == "anyOf" || keyword == "oneOf") {
    std::vector<NodeId>& list = keyword == "anyOf" ? node.any_of : node.one_of;
    CHIMERE_CHECK_OK(children(at, keyword, value, list));
    if (list.empty()) return must_be(keyword, "an array with at least one schema");
    return {};
  }
  NodeId* single = nullptr;
  if (keyword == "not") single = &node.negated;
  if (is_since(at, Dialect::kDraft7)) {
    if (keyword == "if") single = &node.if_schema;
    if (keyword == "then") single = &node.then_schema;
    if (keyword == "else") single = &node.else_schema;
  }
  if (single != nullptr) {
    CHIMERE_TRY(*single, child(at, keyword, value));
    return {};
  }
  if (keyword == "$ref" || keyword == "$dynamicRef" || keyword == "$recursiveRef") {
    return load_reference(at, keyword, value, node);
  }
  CHIMERE_CHECK_OK(load_number_keyword(keyword, value, node));
  CHIMERE_CHECK_OK(load_string_keyword(keyword, value, node));
  CHIMERE_CHECK_OK(load_object_keyword(at, keyword, value, node));
  return load_array_keyword(at, keyword, value, node);
}

Status Loader::load_reference(const Pending& at, const std::string& keyword, ValueId value,
                              Node& node) {
  const Resource& resource = references_[at.place.resource];
  if (keyword == "$dynamicRef" && resource.declared && resource.dialect < Dialect::kDraft2020) {
    return {};
  }
  if (keyword == "$recursiveRef" && resource.declared && resource.dialect != Dialect::kDraft2019) {
    return {};
  }
  if (values_[value].type != ValueType::kString) return must_be(keyword, "a string");
  const std::string& reference = values_.text(values_[value].text);
  const ResourceId from = at.place.resource;
  CHIMERE_TRY(const Place target, keyword == "$ref" ? references_.resolve(from, reference)
                                  : keyword == "$dynamicRef"
                                      ? references_.resolve_dynamic(from, reference)
                                      : references_.resolve_recursive(from));
  const ValueType type = values_[target.value].type;
  if (type != ValueType::kObject && type != ValueType::kTrue && type != ValueType::kFalse) {
    return invalid_argument("\"" + keyword + "\" to \"" + reference + "\" leads to no schema");
  }
  node.all_of.push_back(node_of(target, at.node, "/" + keyword));
  return {};
}

Status Loader::load_number_keyword(const std::string& keyword, ValueId value, Node& node) {
  const bool upper = keyword == "maximum" || keyword == "exclusiveMaximum";
  auto& bound = upper ? node.maximum : node.minimum;
  bool& exclusive = upper ? node.exclusive_maximum : node.exclusive_minimum;
  if (keyword == "minimum" || keyword == "maximum") {
    CHIMERE_TRY(const Decimal limit, number(keyword, value));
    // An exclusive bound was read before.
    if (bound && (upper ? *bound <= limit : *bound >= limit)) return {};
    exclusive = exclusive && !bound;
    bound = limit;
  } else if (keyword == "exclusiveMinimum" || keyword == "exclusiveMaximum") {
    const ValueType type = values_[value].type;
    if (type == ValueType::kTrue || type == ValueType::kFalse) {  // draft 4
      exclusive = type == ValueType::kTrue;
      return {};
    }
    CHIMERE_TRY(const Decimal limit, number(keyword, value));
    if (bound && (upper ? *bound < limit : *bound > limit)) return {};
    bound = limit;
    exclusive = true;
  } else if (keyword == "multipleOf") {
    CHIMERE_TRY(const Decimal divisor, number(keyword, value));
    if (divisor.is_zero() || divisor.negative) return must_be(keyword, "a number above 0");
    node.multiple_of = divisor;
  }
  return {};
}

Status Loader::load_string_keyword(const std::string& keyword, ValueId value, Node& node) {
  if (keyword == "minLength") {
    CHIMERE_TRY(node.min_length, count(keyword, value));
  } else if (keyword == "maxLength") {
    CHIMERE_TRY(node.max_length, count(keyword, value));
  } else if (keyword == "pattern") {
    if (values_[value].type != ValueType::kString) return must_be(keyword, "a string");
    auto regex = arena_.parse(values_.text(values_[value].text), RegexSyntax::kEcma262Search);
    if (!regex.ok()) {
      return Error{regex.error().code, "\"pattern\": " + regex.error().message};
    }
    node.patterns.push_back(*regex);
  } else if (keyword == "format" && options_.assert_formats) {
    if (values_[value].type != ValueType::kString) return must_be(keyword, "a string");
    const std::string& name = values_.text(values_[value].text);
    const FormatSupport support = format_support(name);
    if (support == FormatSupport::kRefused) {
      return unsupported("\"format\": \"" + name + "\" is not supported");
    }
    if (const auto regex = format_language(arena_, name)) node.patterns.push_back(*regex);
  }
  return {};
}

Status Loader::load_dependencies(const Pending& at, const std::string& keyword, ValueId value,
                                 Node& node) {
  const JsonValue& map = values_[value];
  if (map.type != ValueType::kObject) return must_be(keyword, "an object");
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const ValueId dependent = map.items[i];
    const std::string& token = values_.text(map.keys[i]);
    if (keyword == "dependentSchemas" ||
        (keyword == "dependencies" && values_[dependent].type != ValueType::kArray &&
         values_[dependent].type != ValueType::kString)) {
      CHIMERE_TRY(const NodeId schema, child(at, keyword, dependent, &token));
      node.dependent_schemas.emplace_back(map.keys[i], schema);
      continue;
    }
    if (values_[dependent].type == ValueType::kString) {  // draft 3
      node.dependent_required.push_back({map.keys[i], {values_[dependent].text}});
      continue;
    }
    CHIMERE_TRY(std::vector<Symbol> required, names(keyword, dependent));
    node.dependent_required.emplace_back(map.keys[i], std::move(required));
  }
  return {};
}

Status Loader::load_object_keyword(const Pending& at, const std::string& keyword, ValueId value,
                                   Node& node) {
  if (keyword == "properties" || keyword == "patternProperties") {
    const JsonValue& map = values_[value];
    if (map.type != ValueType::kObject) return must_be(keyword, "an object");
    if (keyword == "properties") node.order = values_.written_order(value);
    for (size_t i = 0; i < map.keys.size(); ++i) {
      const std::string& token = values_.text(map.keys[i]);
      CHIMERE_TRY(const NodeId schema, child(at, keyword, map.items[i], &token));
      if (keyword == "properties") {
        node.properties.emplace_back(map.keys[i], schema);
        continue;
      }
      auto regex = arena_.parse(token, RegexSyntax::kEcma262Search);
      if (!regex.ok()) {
        return Error{regex.error().code, "\"patternProperties\": " + regex.error().message};
      }
      node.pattern_properties.emplace_back(*regex, schema);
    }
  } else if (keyword == "additionalProperties") {
    CHIMERE_TRY(node.additional_properties, child(at, keyword, value));
  } else if (keyword == "propertyNames" && is_since(at, Dialect::kDraft6)) {
    CHIMERE_TRY(node.property_names, child(at, keyword, value));
  } else if (keyword == "unevaluatedProperties" && is_since(at, Dialect::kDraft2019)) {
    CHIMERE_TRY(node.unevaluated_properties, child(at, keyword, value));
  } else if (keyword == "required") {
    CHIMERE_TRY(node.required, names(keyword, value));
  } else if (keyword == "minProperties") {
    CHIMERE_TRY(node.min_properties, count(keyword, value));
  } else if (keyword == "maxProperties") {
    CHIMERE_TRY(node.max_properties, count(keyword, value));
  } else if ((keyword == "dependentRequired" || keyword == "dependentSchemas") &&
             is_since(at, Dialect::kDraft2019)) {
    return load_dependencies(at, keyword, value, node);
  } else if (keyword == "dependencies" && is_until(at, Dialect::kDraft7)) {
    return load_dependencies(at, keyword, value, node);
  }
  return {};
}

Status Loader::load_array_keyword(const Pending& at, const std::string& keyword, ValueId value,
                                  Node& node) {
  const ValueId prefix = values_.member(at.place.value, "prefixItems");
  const bool has_prefix = prefix != kNone && is_since(at, Dialect::kDraft2020);
  if (keyword == "prefixItems" && has_prefix) {
    return children(at, keyword, value, node.prefix_items);
  }
  if (keyword == "items") {
    if (values_[value].type != ValueType::kArray) {
      CHIMERE_TRY(node.items, child(at, keyword, value));
      return {};
    }
    if (has_prefix || !is_until(at, Dialect::kDraft2019)) return must_be(keyword, "a schema");
    return children(at, keyword, value, node.prefix_items);
  }
  if (keyword == "additionalItems" && is_until(at, Dialect::kDraft2019)) {
    const ValueId items = values_.member(at.place.value, "items");
    if (items == kNone || values_[items].type != ValueType::kArray) return {};
    CHIMERE_TRY(node.items, child(at, keyword, value));
    return {};
  }
  if (keyword == "contains" && is_since(at, Dialect::kDraft6)) {
    CHIMERE_TRY(node.contains, child(at, keyword, value));
    node.contains_evaluates = references_[at.place.resource].dialect >= Dialect::kDraft2020;
  } else if (keyword == "minContains" && is_since(at, Dialect::kDraft2019)) {
    CHIMERE_TRY(node.min_contains, count(keyword, value));
  } else if (keyword == "maxContains" && is_since(at, Dialect::kDraft2019)) {
    CHIMERE_TRY(node.max_contains, count(keyword, value));
  } else if (keyword == "unevaluatedItems" && is_since(at, Dialect::kDraft2019)) {
    CHIMERE_TRY(node.unevaluated_items, child(at, keyword, value));
  } else if (keyword == "minItems") {
    CHIMERE_TRY(node.min_items, count(keyword, value));
  } else if (keyword == "maxItems") {
    CHIMERE_TRY(node.max_items, count(keyword, value));
  } else if (keyword == "uniqueItems") {
    const ValueType type = values_[value].type;
    if (type != ValueType::kTrue && type != ValueType::kFalse) return must_be(keyword, "a boolean");
    node.unique_items = type == ValueType::kTrue;
  }
  return {};
}

}  // namespace

Result<Schemas> load_schemas(Values& values, ValueId root, RegexArena& arena,
                             const LoadOptions& options) {
  const ValueType type = values[root].type;
  if (type != ValueType::kObject && type != ValueType::kTrue && type != ValueType::kFalse) {
    return invalid_argument(error_place("") + "a schema must be an object, true or false");
  }
  References references = References::create(values, root);
  return Loader(values, arena, options, std::move(references)).load(root);
}

}  // namespace chimere::constraints::json_schema
