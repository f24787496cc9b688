#include "constraints/json_schema/declared_properties.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chimere::constraints::json_schema {
namespace {

/// How a schema is reached. The modes are bits because a schema can be reached in several ways.
enum Mode : uint8_t {
  kAlone = 1,   ///< all that is said of a value, or one of the alternatives
  kBeside = 2,  ///< other schemas apply to the same value
  kMixed = 4,   ///< fewer values of it may make more documents valid
};

bool has_applicators(const Node& node) {
  return !node.all_of.empty() || !node.any_of.empty() || !node.one_of.empty() ||
         node.negated != kNone || node.if_schema != kNone || !node.dependent_schemas.empty();
}

/// Whether the node says nothing of objects' members or arrays' items itself.
bool says_nothing_of_members(const Node& node) {
  return node.properties.empty() && node.pattern_properties.empty() &&
         node.additional_properties == kNone && node.property_names == kNone &&
         node.required.empty() && node.min_properties == 0 && node.max_properties == kNoLimit &&
         node.dependent_required.empty() && node.prefix_items.empty() && node.items == kNone &&
         node.contains == kNone;
}

/// Whether the only statement about a value's members is one list of alternatives, or one schema.
bool passes_on(const Node& node) {
  const size_t lists = (node.all_of.empty() ? 0 : 1) + (node.any_of.empty() ? 0 : 1);
  return says_nothing_of_members(node) && lists == 1 && node.all_of.size() <= 1 &&
         node.one_of.empty() && node.negated == kNone && node.if_schema == kNone &&
         node.dependent_schemas.empty();
}

class Walk {
 public:
  explicit Walk(const Schemas& schemas) : schemas_(schemas), modes_(schemas.nodes.size(), 0) {}

  /// The modes in which each node is reached.
  std::vector<uint8_t> run() {
    reach(schemas_.root, kAlone);
    while (!queue_.empty()) {
      const auto [id, mode] = queue_.back();
      queue_.pop_back();
      follow(schemas_.nodes[id], mode);
    }
    return std::move(modes_);
  }

 private:
  void reach(NodeId id, Mode mode) {
    if (id == kNone || (modes_[id] & mode) != 0) return;
    modes_[id] |= mode;
    queue_.emplace_back(id, mode);
  }
  void reach(const std::vector<NodeId>& ids, Mode mode) {
    for (const NodeId id : ids) reach(id, mode);
  }

  void follow(const Node& node, Mode mode) {
    const Mode beside = std::max(mode, kBeside);
    // Members of a value to which other schemas apply can be in these, too.
    const Mode member = has_applicators(node) ? beside : mode;
    const Mode named = node.pattern_properties.empty() ? member : beside;
    for (const auto& [name, id] : node.properties) reach(id, named);
    for (const auto& [names, id] : node.pattern_properties) reach(id, named);
    reach(node.additional_properties, member);
    const Mode item = node.contains == kNone ? member : beside;
    reach(node.prefix_items, item);
    reach(node.items, item);
    reach(node.unevaluated_items, beside);

    const Mode inner = passes_on(node) ? mode : beside;
    reach(node.all_of, inner);
    reach(node.any_of, inner);
    for (const auto& [name, id] : node.dependent_schemas) reach(id, beside);
    reach(node.then_schema, beside);
    reach(node.else_schema, beside);

    reach(node.one_of, kMixed);
    reach(node.contains, kMixed);
    reach(node.negated, kMixed);
    reach(node.if_schema, kMixed);
  }

  const Schemas& schemas_;
  std::vector<uint8_t> modes_;
  std::vector<std::pair<NodeId, Mode>> queue_;
};

bool declares(const Node& node, Symbol name) {
  const auto at = std::ranges::lower_bound(node.properties, name, {},
                                           [](const auto& property) { return property.first; });
  return at != node.properties.end() && at->first == name;
}

bool declares_all(const Node& node, const std::vector<Symbol>& names) {
  return std::ranges::all_of(names, [&](Symbol name) { return declares(node, name); });
}

/// Whether a schema that stands alone lists what its objects are made of.
bool lists_its_properties(const Node& node) {
  return !node.properties.empty() && node.pattern_properties.empty() &&
         node.additional_properties == kNone && node.property_names == kNone &&
         !has_applicators(node) && !node.has_enum && declares_all(node, node.required) &&
         std::ranges::all_of(node.dependent_required,
                             [&](const auto& rule) { return declares_all(node, rule.second); }) &&
         node.min_properties <= node.properties.size();
}

}  // namespace

void refuse_undeclared_properties(Schemas& schemas) {
  const bool evaluates = std::ranges::any_of(
      schemas.nodes, [](const Node& node) { return node.unevaluated_properties != kNone; });
  if (evaluates) return;
  const std::vector<uint8_t> modes = Walk(schemas).run();
  for (NodeId id = 0; id < schemas.nodes.size(); ++id) {
    Node& node = schemas.nodes[id];
    if (modes[id] == kAlone && lists_its_properties(node)) node.additional_properties = kFalseNode;
  }
}

}  // namespace chimere::constraints::json_schema
