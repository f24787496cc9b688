#include "engine/prefix_cache/prefix_index.h"

#include <algorithm>
#include <cstddef>

#include "engine/prefix_points.h"
#include "state/prefix_folder.h"

namespace chimere::engine {

PrefixNode& PrefixIndex::insert(const std::string& scope, std::span<const int32_t> tokens) {
  const auto [tree, fresh] = trees_.try_emplace(scope);
  PrefixNode& node = tree->second.insert(tokens);
  // The insertion may have split an edge, which adds a parent.
  for (PrefixNode* n = &node; n != nullptr; n = n->parent) n->state.scope = &tree->first;
  return node;
}

std::vector<PrefixNode*> PrefixIndex::path(const std::string& scope,
                                           std::span<const int32_t> tokens) {
  const auto tree = trees_.find(scope);
  if (tree == trees_.end()) return {};
  return tree->second.path(tokens);
}

PrefixNode* PrefixIndex::find(const std::string& scope, std::span<const int32_t> tokens) {
  const std::vector<PrefixNode*> nodes = path(scope, tokens);
  const bool found =
      !nodes.empty() && nodes.back()->position == static_cast<int32_t>(tokens.size());
  return found ? nodes.back() : nullptr;
}

void PrefixIndex::for_each(const std::function<void(PrefixNode&)>& fn) {
  for (auto& [scope, tree] : trees_) tree.for_each(fn);
}

PrefixNode* PrefixIndex::oldest(const std::function<bool(PrefixNode&)>& passes) {
  PrefixNode* out = nullptr;
  for_each([&](PrefixNode& n) {
    if ((out == nullptr || n.state.used < out->state.used) && passes(n)) out = &n;
  });
  return out;
}

void PrefixIndex::erase_unused(PrefixNode& node) {
  if (!has_state(node.state)) node.state.context_rows.reset();
  trees_.find(*node.state.scope)->second.erase_unused(node);
}

void PrefixIndex::erase_unused_leaves() {
  std::vector<PrefixNode*> leaves;
  for_each([&](PrefixNode& n) {
    if (!has_state(n.state)) n.state.context_rows.reset();
    if (n.children.empty() && !n.state.anywhere()) leaves.push_back(&n);
  });
  for (PrefixNode* leaf : leaves) erase_unused(*leaf);
}

void PrefixIndex::touch(std::span<PrefixNode* const> path) {
  const int64_t now = state::unix_seconds();
  for (size_t i = path.size(); i-- > 0;) {
    state::CachedState& s = path[i]->state;
    s.used = tick();
    s.used_at = now;
    s.use_unsaved = s.on_disk;
  }
}

std::optional<PrefixRecipe> PrefixIndex::recipe_for(const PrefixNode& node) const {
  PrefixRecipe recipe;
  const auto take_memory = [&](const PrefixNode& n) {
    recipe.sources.push_back({n.state.memory, {}});
    return n.state.memory->first_page;
  };
  const auto take_file = [&](const PrefixNode& n) {
    recipe.sources.push_back({nullptr, {*n.state.scope, state::PrefixTree::tokens_of(n)}});
    recipe.needs_disk = true;
    return n.state.disk_first_page;
  };
  int32_t need = 0;  // pages before this one are missing
  if (node.state.usable_memory()) {
    need = take_memory(node);
  } else if (node.state.on_disk) {
    need = take_file(node);
  } else {
    return std::nullopt;
  }
  for (const PrefixNode* n = node.parent; need > 0; n = n->parent) {
    if (n == nullptr || end_page(*n) < need) return std::nullopt;  // the other nodes are shorter
    const state::CachedState& s = n->state;
    if (s.device != nullptr) {
      recipe.base = s.device;
      need = 0;
    } else if (s.memory != nullptr && s.memory->first_page < need) {
      need = take_memory(*n);
    } else if (s.on_disk && s.disk_first_page < need) {
      need = take_file(*n);
    }
  }
  std::ranges::reverse(recipe.sources);
  return recipe;
}

std::vector<PrefixNode*> PrefixIndex::states_to_thin(std::span<PrefixNode* const> path,
                                                     std::span<const int64_t> points) {
  std::vector<PrefixNode*> held;
  for (PrefixNode* n : path) {
    if (n->state.device != nullptr || n->state.usable_memory()) held.push_back(n);
  }
  std::vector<PrefixNode*> out;
  while (held.size() > kMaxPrefixPoints) {
    size_t best = 0;
    int32_t smallest = 0;
    for (size_t i = 0; i + 1 < held.size(); ++i) {
      const PrefixNode& n = *held[i];
      const bool wanted = std::ranges::binary_search(points, int64_t{n.position}) ||
                          n.children.size() > 1 || n.state.pins > 0;
      const int32_t gap = held[i + 1]->position - (i > 0 ? held[i - 1]->position : 0);
      if (!wanted && (smallest == 0 || gap < smallest)) {
        best = i;
        smallest = gap;
      }
    }
    if (smallest == 0) return out;
    out.push_back(held[best]);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return out;
}

}  // namespace chimere::engine
