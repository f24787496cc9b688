#include "engine/prefix_cache/memory_tier.h"

#include <cstddef>
#include <utility>

namespace chimere::engine {

void MemoryTier::set(PrefixNode& node, Image image) {
  if (node.state.memory != nullptr) bytes_ -= node.state.memory->bytes();
  node.state.memory = std::move(image);
  if (node.state.memory != nullptr) bytes_ += node.state.memory->bytes();
}

/// The copies needed to keep the node's state, shortest prefix first.
std::vector<MemoryTier::Copy> MemoryTier::copies_for(PrefixNode& node) const {
  std::vector<PrefixNode*> chain;
  int32_t first_page = 0;
  for (PrefixNode* n = &node; n->parent != nullptr; n = n->parent) {
    if (n != &node && n->state.memory != nullptr) {
      first_page = index_.end_page(*n);
      break;
    }
    if (n->state.device != nullptr) chain.push_back(n);
  }
  std::vector<Copy> copies;
  for (size_t i = chain.size(); i-- > 0;) {
    copies.push_back({chain[i], chain[i]->state.device, first_page});
    first_page = index_.end_page(*chain[i]);
  }
  return copies;
}

void MemoryTier::copy(PrefixNode& node) {
  for (const Copy& c : copies_for(node)) {
    const state::StateImage image = c.from->image(c.first_page);
    if (image.slot == nullptr) return;  // device error
    set(*c.node, std::make_shared<const state::StateImage>(image));
  }
}

void MemoryTier::copy_in_background(PrefixNode& node, std::function<void()> done) {
  auto copies = std::make_shared<std::vector<Copy>>(copies_for(node));
  for (const Copy& c : *copies) ++c.node->state.pins;
  background_.post([this, copies, done = std::move(done)] {
    auto images = std::make_shared<std::vector<Image>>();
    for (const Copy& c : *copies) {
      images->push_back(std::make_shared<const state::StateImage>(c.from->image(c.first_page)));
    }
    return [this, copies, images, done] {
      for (size_t i = 0; i < copies->size(); ++i) {
        PrefixNode& n = *(*copies)[i].node;
        --n.state.pins;
        set(n, (*images)[i]);
      }
      copies->clear();  // `done` may release these states
      done();
    };
  });
}

void MemoryTier::keep_pages_alone(PrefixNode& node) {
  if (node.state.memory == nullptr) return;
  auto pages = std::make_shared<state::StateImage>(*node.state.memory);
  pages->slot = nullptr;
  set(node, std::move(pages));
}

void MemoryTier::drop(PrefixNode& node) {
  const bool last = node.state.device == nullptr && !node.state.on_disk;
  lost_ += last && node.state.usable_memory() && node.state.pins == 0;
  set(node, nullptr);
}

PrefixNode* MemoryTier::victim() {
  return index_.oldest([](PrefixNode& n) {
    if (n.state.memory == nullptr || n.state.pins > 0) return false;
    bool lends = false;
    state::PrefixTree::for_each_below(
        n, [&](const PrefixNode& b) { lends |= b.state.memory != nullptr; });
    return !lends;
  });
}

}  // namespace chimere::engine
