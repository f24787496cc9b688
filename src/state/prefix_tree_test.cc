#include "state/prefix_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/fresh_seed.h"

namespace chimere::state {
namespace {

using Node = PrefixTree::Node;
using Tokens = std::vector<int32_t>;

TEST(PrefixTree, IsASetOfPrefixes) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    PrefixTree tree;
    std::set<Tokens> kept;
    const auto draw = [&] {
      Tokens t(1 + random() % 12);
      for (int32_t& x : t) x = static_cast<int32_t>(random() % 3);
      return t;
    };
    for (int i = 0; i < 60; ++i) {
      const Tokens tokens = draw();
      if (random() % 3 != 0) {
        Node& node = tree.insert(tokens);
        ASSERT_EQ(node.position, static_cast<int32_t>(tokens.size()));
        ASSERT_EQ(PrefixTree::tokens_of(node), tokens);
        node.state.on_disk = true;
        kept.insert(tokens);
      } else if (!kept.empty()) {
        const auto victim = std::next(kept.begin(), static_cast<int>(random() % kept.size()));
        Node& node = *tree.path(*victim).back();
        node.state.on_disk = false;
        tree.erase_unused(node);
        kept.erase(victim);
      }
      const Tokens asked = draw();
      std::set<Tokens> expected;
      for (const Tokens& k : kept) {
        if (k.size() <= asked.size() && std::equal(k.begin(), k.end(), asked.begin()))
          expected.insert(k);
      }
      std::set<Tokens> found;
      int32_t last = 0;
      for (Node* n : tree.path(asked)) {
        EXPECT_GT(n->position, last);  // shortest first
        last = n->position;
        if (n->state.anywhere()) found.insert(PrefixTree::tokens_of(*n));
      }
      ASSERT_EQ(found, expected);
    }
    size_t visited = 0;
    tree.for_each([&](Node& n) {
      visited += n.state.anywhere();
      EXPECT_TRUE(n.state.anywhere() || !n.children.empty()) << "an unused leaf";
    });
    EXPECT_EQ(visited, kept.size());
  }
}

TEST(PrefixTree, NodesKeepTheirAddressAndPinsHoldThem) {
  PrefixTree tree;
  Node& longer = tree.insert(Tokens{1, 2, 3, 4});
  longer.state.pins = 1;
  Node& shorter = tree.insert(Tokens{1, 2});
  EXPECT_EQ(longer.parent, &shorter);
  tree.erase_unused(longer);
  EXPECT_EQ(tree.path(Tokens{1, 2, 3, 4, 5}).back(), &longer);
  longer.state.pins = 0;
  tree.erase_unused(longer);
  EXPECT_TRUE(tree.path(Tokens{1, 2, 3, 4, 5}).empty());
}

}  // namespace
}  // namespace chimere::state
