#include "constraints/json_schema/references.h"

#include <optional>
#include <unordered_set>
#include <utility>

#include "constraints/json_schema/uri.h"

namespace chimere::constraints::json_schema {

namespace {

uint64_t place_key(ValueId value, ResourceId resource) {
  return static_cast<uint64_t>(resource) << 32 | value;
}

std::string anchor_key(ResourceId resource, std::string_view name) {
  return std::to_string(resource) + "#" + std::string(name);
}

std::optional<Dialect> dialect_of(std::string_view uri) {
  if (!uri.empty() && uri.back() == '#') uri.remove_suffix(1);
  const size_t colon = uri.find("://");
  if (colon != std::string_view::npos) uri = uri.substr(colon + 3);
  if (uri == "json-schema.org/draft/2020-12/schema") return Dialect::kDraft2020;
  if (uri == "json-schema.org/draft/2019-09/schema") return Dialect::kDraft2019;
  if (uri == "json-schema.org/draft-07/schema") return Dialect::kDraft7;
  if (uri == "json-schema.org/draft-06/schema") return Dialect::kDraft6;
  if (uri == "json-schema.org/draft-04/schema") return Dialect::kDraft4;
  if (uri == "json-schema.org/schema") return Dialect::kDraft2020;
  return std::nullopt;
}

const std::string* string_member(const Values& values, ValueId object, std::string_view key) {
  const ValueId member = values.member(object, key);
  if (member == kNone || values[member].type != ValueType::kString) return nullptr;
  return &values.text(values[member].text);
}

/// The identifier of a schema object: $id, or id where the dialect (or none) allows it.
const std::string* identifier_of(const Values& values, ValueId schema, const Resource& resource) {
  const bool legacy = resource.dialect <= Dialect::kDraft7;
  if (legacy && values.member(schema, "$ref") != kNone) return nullptr;
  if (const std::string* id = string_member(values, schema, "$id")) return id;
  if (resource.dialect == Dialect::kDraft4) {
    return string_member(values, schema, "id");
  }
  return nullptr;
}

}  // namespace

References References::create(const Values& values, ValueId root) {
  References references(values);
  references.index(root);
  return references;
}

ResourceId References::add_resource(ValueId value, ResourceId parent) {
  Resource resource;
  if (!resources_.empty()) {
    resource.dialect = resources_[parent].dialect;
    resource.declared = resources_[parent].declared;
    resource.uri = resources_[parent].uri;
  }
  resource.root = value;
  if (const std::string* schema = string_member(*values_, value, "$schema")) {
    const auto dialect = dialect_of(*schema);
    if (dialect) {
      resource.dialect = *dialect;
      resource.declared = true;
    } else if (schema->find("json-schema.org/draft-0") != std::string::npos) {
      resource.supported = false;
    }
  }
  if (const std::string* id = identifier_of(*values_, value, resource)) {
    resource.uri = split_fragment(resolve_uri(resource.uri, *id)).document;
  }
  const auto id = static_cast<ResourceId>(resources_.size());
  by_uri_.emplace(resource.uri, id);
  resources_.push_back(std::move(resource));
  return id;
}

void References::add_anchors(ValueId value, ResourceId resource) {
  if (const std::string* name = string_member(*values_, value, "$anchor")) {
    anchors_.emplace(anchor_key(resource, *name), value);
  }
  if (const std::string* name = string_member(*values_, value, "$dynamicAnchor")) {
    anchors_.emplace(anchor_key(resource, *name), value);
    if (dynamic_.emplace(anchor_key(resource, *name), value).second) ++dynamic_count_[*name];
  }
  const ValueId recursive = values_->member(value, "$recursiveAnchor");
  if (recursive != kNone && (*values_)[recursive].type == ValueType::kTrue) {
    recursive_anchor_ = true;
  }
  const std::string* id = identifier_of(*values_, value, resources_[resource]);
  if (id != nullptr && id->size() > 1 && (*id)[0] == '#') {
    anchors_.emplace(anchor_key(resource, id->substr(1)), value);
  }
}

void References::index(ValueId root) {
  const ResourceId first = add_resource(root, 0);
  bool any = false;
  for (const char* keyword : {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}) {
    any = any || values_->find_symbol(keyword) != kNone;
  }
  add_anchors(root, first);
  if (!any) return;
  std::vector<Place> stack = {{root, first}};
  std::unordered_set<uint64_t> seen = {place_key(root, first)};
  while (!stack.empty()) {
    const Place place = stack.back();
    stack.pop_back();
    for_each_subschema(
        *values_, place.value, [&](const std::string&, const std::string&, ValueId child) {
          if (!seen.insert(place_key(child, place.resource)).second) return;
          ResourceId resource = place.resource;
          const std::string* id = identifier_of(*values_, child, resources_[resource]);
          if (id != nullptr && !id->empty() && (*id)[0] != '#') {
            resource = add_resource(child, resource);
            by_value_.emplace(place_key(child, place.resource), resource);
          }
          add_anchors(child, resource);
          stack.push_back({child, resource});
        });
  }
}

ResourceId References::resource_of(ValueId value, ResourceId parent) const {
  const auto found = by_value_.find(place_key(value, parent));
  return found == by_value_.end() ? parent : found->second;
}

Result<Place> References::resolve(ResourceId from, std::string_view reference) const {
  const SplitUri target = split_fragment(resolve_uri(resources_[from].uri, reference));
  const auto found = by_uri_.find(target.document);
  ResourceId resource = 0;
  if (found != by_uri_.end()) {
    resource = found->second;
  } else if (reference.empty() || reference[0] == '#') {
    resource = from;
  } else {
    return unsupported("\"$ref\" to \"" + std::string(reference) +
                       "\" leads out of the document; other documents are not fetched");
  }
  // Resources of older drafts often count pointers from the root of the document.
  const auto retry = [&](Error error) -> Result<Place> {
    if (from == 0 || reference.substr(0, 2) != "#/") return error;
    return resolve(0, reference);
  };
  const Error missing =
      invalid_argument("\"$ref\" to \"" + std::string(reference) + "\" leads nowhere");
  ValueId value = resources_[resource].root;
  if (!target.fragment.empty() && target.fragment[0] != '/') {
    const auto anchor = anchors_.find(anchor_key(resource, target.fragment));
    if (anchor == anchors_.end()) return retry(missing);
    return Place{anchor->second, resource};
  }
  for (const std::string& token : pointer_tokens(target.fragment)) {
    const JsonValue& at = (*values_)[value];
    ValueId next = kNone;
    if (at.type == ValueType::kObject) {
      next = values_->member(value, token);
    } else if (at.type == ValueType::kArray && !token.empty() && token.size() < 9 &&
               token.find_first_not_of("0123456789") == std::string::npos) {
      const size_t index = std::stoul(token);
      if (index < at.items.size()) next = at.items[index];
    }
    if (next == kNone) return retry(missing);
    value = next;
    resource = resource_of(value, resource);
  }
  return Place{value, resource};
}

Result<Place> References::resolve_dynamic(ResourceId from, std::string_view reference) const {
  CHIMERE_TRY(const Place place, resolve(from, reference));
  const std::string name = split_fragment(reference).fragment;
  const auto target = dynamic_.find(anchor_key(place.resource, name));
  if (target == dynamic_.end() || target->second != place.value) return place;
  if (dynamic_count_.at(name) == 1) return place;
  return unsupported("\"$dynamicRef\" to \"" + std::string(reference) +
                     "\" depends on the dynamic scope");
}

Result<Place> References::resolve_recursive(ResourceId from) const {
  if (recursive_anchor_ && resources_.size() > 1) {
    return unsupported("\"$recursiveRef\" depends on the dynamic scope");
  }
  return resolve(from, "#");
}

}  // namespace chimere::constraints::json_schema
