#include "text/byte_pair.h"

#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"

namespace chimere::text {
namespace {

/// Reference: searches for the best pair again after every merge.
void plain_merge(const MergeTable& table, std::vector<int32_t>& s) {
  while (true) {
    size_t best = s.size();
    MergeTable::Merge merge;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      const MergeTable::Merge m = table.find(s[i], s[i + 1]);
      if (m.rank >= 0 && (merge.rank < 0 || m.rank < merge.rank)) {
        best = i;
        merge = m;
      }
    }
    if (best == s.size()) return;
    s[best] = merge.symbol;
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BytePairMerger, EqualsTheReference) {
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    MergeTable table(40);
    int symbols = letters;
    for (int rank = 0; rank < 40; ++rank) {
      // Some merges lead to a symbol that exists.
      const int to = random() % 5 == 0 ? static_cast<int>(random() % symbols) : symbols;
      if (table.add(static_cast<int>(random() % symbols), static_cast<int>(random() % symbols),
                    {rank, to}) &&
          to == symbols) {
        ++symbols;
      }
    }
    BytePairMerger merger(table);
    for (int word = 0; word < 10; ++word) {
      std::vector<int32_t> fast(random() % 60);
      for (int32_t& s : fast) s = static_cast<int32_t>(random() % letters);
      std::vector<int32_t> plain = fast;
      merger.merge(fast);
      plain_merge(table, plain);
      ASSERT_EQ(fast, plain);
    }
  }
}

TEST(MergeTable, TheFirstOfEqualPairsCounts) {
  MergeTable table(2);
  EXPECT_TRUE(table.add(1, 2, {0, 3}));
  EXPECT_FALSE(table.add(1, 2, {1, 4}));
  EXPECT_EQ(table.find(1, 2).symbol, 3);
  EXPECT_EQ(table.find(2, 1).rank, -1);
}

}  // namespace
}  // namespace chimere::text
