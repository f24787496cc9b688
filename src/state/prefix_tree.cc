#include "state/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace chimere::state {

using Node = PrefixTree::Node;

PrefixTree::PrefixTree() : root_(std::make_unique<Node>()) {}

/// Inserts a node after the first `at` tokens of the child's edge, and returns it.
Node& PrefixTree::split(Node& child, size_t at) {
  std::unique_ptr<Node>& place = child.parent->children.at(child.edge.front());
  std::unique_ptr<Node> lower = std::move(place);
  const auto cut = child.edge.begin() + static_cast<std::ptrdiff_t>(at);
  auto upper = std::make_unique<Node>();
  upper->parent = child.parent;
  upper->edge.assign(child.edge.begin(), cut);
  upper->position = child.position - static_cast<int32_t>(child.edge.size() - at);
  child.edge.erase(child.edge.begin(), cut);
  child.parent = upper.get();
  upper->children.emplace(child.edge.front(), std::move(lower));
  place = std::move(upper);
  return *place;
}

Node& PrefixTree::insert(std::span<const int32_t> tokens) {
  Node* node = root_.get();
  while (!tokens.empty()) {
    const auto found = node->children.find(tokens.front());
    if (found == node->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->parent = node;
      leaf->edge.assign(tokens.begin(), tokens.end());
      leaf->position = node->position + static_cast<int32_t>(tokens.size());
      return *(node->children[tokens.front()] = std::move(leaf));
    }
    Node& child = *found->second;
    const auto common =
        static_cast<size_t>(std::ranges::mismatch(child.edge, tokens).in1 - child.edge.begin());
    node = common < child.edge.size() ? &split(child, common) : &child;
    tokens = tokens.subspan(common);
  }
  return *node;
}

std::vector<Node*> PrefixTree::path(std::span<const int32_t> tokens) {
  std::vector<Node*> out;
  Node* node = root_.get();
  while (!tokens.empty()) {
    const auto found = node->children.find(tokens.front());
    if (found == node->children.end()) break;
    node = found->second.get();
    const size_t length = node->edge.size();
    if (length > tokens.size() || !std::ranges::equal(node->edge, tokens.first(length))) break;
    out.push_back(node);
    tokens = tokens.subspan(length);
  }
  return out;
}

void PrefixTree::erase_unused(Node& node) {
  Node* at = &node;
  while (at != root_.get() && at->children.empty() && !at->state.anywhere() &&
         at->state.pins == 0) {
    Node* parent = at->parent;
    const int32_t key = at->edge.front();
    parent->children.erase(key);
    at = parent;
  }
}

void PrefixTree::for_each(const std::function<void(Node&)>& fn) { for_each_below(*root_, fn); }

void PrefixTree::for_each_below(Node& node, const std::function<void(Node&)>& fn) {
  // Not recursive, because a conversation's path can be long.
  std::vector<Node*> open;
  const auto push_children = [&](Node& n) {
    for (const auto& [token, child] : n.children) open.push_back(child.get());
  };
  push_children(node);
  while (!open.empty()) {
    Node* next = open.back();
    open.pop_back();
    push_children(*next);
    fn(*next);
  }
}

std::vector<int32_t> PrefixTree::tokens_of(const Node& node) {
  std::vector<int32_t> out(static_cast<size_t>(node.position));
  for (const Node* n = &node; n->parent != nullptr; n = n->parent) {
    std::ranges::copy(n->edge, out.begin() + n->parent->position);
  }
  return out;
}

}  // namespace chimere::state
