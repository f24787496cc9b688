#include "engine/prefix_cache/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "engine/prefix_points.h"

namespace chimere::engine {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int kTokensPerPage = 4;

std::shared_ptr<const state::StateImage> image_from(int32_t first_page) {
  auto image = std::make_shared<state::StateImage>();
  image->first_page = first_page;
  image->slot = std::make_shared<const std::vector<uint8_t>>(1);
  return image;
}

TEST(PrefixIndex, ShorterPrefixesAreUsedMoreRecently) {
  PrefixIndex index(kTokensPerPage);
  PrefixNode& longer = index.insert("a", Tokens(12, 7));
  PrefixNode& shorter = index.insert("a", Tokens(5, 7));  // splits the edge of `longer`
  PrefixNode& other = index.insert("b", Tokens(5, 7));
  const std::vector<PrefixNode*> path = index.path("a", Tokens(20, 7));
  EXPECT_THAT(path, ::testing::ElementsAre(&shorter, &longer));
  index.touch(path);
  const auto any = [](const PrefixNode&) { return true; };
  EXPECT_EQ(index.oldest(any), &other);
  index.touch(index.path("b", Tokens(5, 7)));
  EXPECT_EQ(index.oldest(any), &longer);
  EXPECT_EQ(index.find("a", Tokens(5, 7)), &shorter);
  EXPECT_EQ(index.find("a", Tokens(6, 7)), nullptr);
  longer.state.on_disk = true;
  index.erase_unused(shorter);  // has a child
  EXPECT_EQ(index.find("a", Tokens(5, 7)), &shorter);
  longer.state.on_disk = false;
  index.erase_unused_leaves();
  EXPECT_THAT(index.path("a", Tokens(20, 7)), ::testing::IsEmpty());
}

TEST(PrefixIndex, RecipesCoverEachPageOnce) {
  PrefixIndex index(kTokensPerPage);
  PrefixNode& first = index.insert("a", Tokens(8, 7));
  PrefixNode& second = index.insert("a", Tokens(17, 7));
  PrefixNode& third = index.insert("a", Tokens(30, 7));
  EXPECT_FALSE(index.recipe_for(third));
  third.state.memory = image_from(4);
  EXPECT_FALSE(index.recipe_for(third)) << "pages 0 to 3 are missing";
  second.state.on_disk = true;
  second.state.disk_first_page = 2;
  EXPECT_FALSE(index.recipe_for(third)) << "pages 0 and 1 are missing";
  first.state.memory = image_from(0);
  const auto recipe = index.recipe_for(third);
  ASSERT_TRUE(recipe);
  EXPECT_TRUE(recipe->needs_disk);
  ASSERT_EQ(recipe->sources.size(), 3U);
  EXPECT_EQ(recipe->sources[0].memory, first.state.memory);
  EXPECT_EQ(recipe->sources[1].memory, nullptr);
  EXPECT_EQ(recipe->sources[1].file.tokens, Tokens(17, 7));
  EXPECT_EQ(recipe->sources[1].file.scope, "a");
  EXPECT_EQ(recipe->sources[2].memory, third.state.memory);
  third.state.memory = image_from(0);
  ASSERT_TRUE(index.recipe_for(third));
  EXPECT_EQ(index.recipe_for(third)->sources.size(), 1U);
  EXPECT_FALSE(index.recipe_for(third)->needs_disk);
}

TEST(PrefixIndex, ThinningSparesPointsAndBranches) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    PrefixIndex index(kTokensPerPage);
    Tokens tokens;
    std::vector<int64_t> points;
    const size_t n = kMaxPrefixPoints + 1 + random() % 10;
    for (size_t i = 0; i < n; ++i) {
      tokens.resize(tokens.size() + 1 + random() % 20, 7);
      index.insert("a", tokens).state.memory = image_from(0);
      if (random() % 4 == 0) points.push_back(static_cast<int64_t>(tokens.size()));
      if (random() % 8 == 0) {
        Tokens branch = tokens;
        branch.push_back(9);
        index.insert("a", branch).state.memory = image_from(0);
      }
    }
    const std::vector<PrefixNode*> path = index.path("a", tokens);
    ASSERT_EQ(path.size(), n);
    const auto may_go = [&](const PrefixNode* node) {
      return node != path.back() && node->children.size() < 2 &&
             !std::ranges::binary_search(points, int64_t{node->position});
    };
    const std::vector<PrefixNode*> thinned = PrefixIndex::states_to_thin(path, points);
    const auto most = static_cast<size_t>(std::ranges::count_if(path, may_go));
    EXPECT_EQ(thinned.size(), std::min(n - kMaxPrefixPoints, most));
    EXPECT_TRUE(std::ranges::all_of(thinned, may_go));
  }
}

}  // namespace
}  // namespace chimere::engine
