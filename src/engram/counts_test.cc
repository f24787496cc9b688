#include "engram/counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::engram {
namespace {

using Documents = std::vector<std::vector<int32_t>>;
/// (context with the latest token first, next token) -> weight.
using Reference = std::map<std::pair<std::vector<uint32_t>, uint32_t>, uint64_t>;

constexpr uint16_t kDay = 20000;

Reference count_naively(const Documents& documents, int order) {
  Reference out;
  for (const auto& d : documents) {
    for (size_t i = 0; i < d.size(); ++i) {
      std::vector<uint32_t> context;
      out[{context, static_cast<uint32_t>(d[i])}] += kOne;
      for (size_t k = 1; k <= static_cast<size_t>(order) && k <= i; ++k) {
        context.push_back(static_cast<uint32_t>(d[i - k]));
        out[{context, static_cast<uint32_t>(d[i])}] += kOne;
      }
    }
  }
  return out;
}

std::vector<uint32_t> path_of(const Counts& counts, uint32_t node) {
  std::vector<uint32_t> path;
  for (; node != 0; node = counts.nodes()[node].parent)
    path.insert(path.begin(), counts.nodes()[node].token);
  return path;
}

Reference contents(const Counts& counts) {
  Reference out;
  for (uint32_t i = 0; i + 1 < counts.nodes().size(); ++i) {
    for (const Successor& s : counts.successors_of(i))
      out[{path_of(counts, i), s.token}] += s.weight;
  }
  return out;
}

Documents random_documents(std::mt19937& rng, int vocabulary) {
  Documents out(std::uniform_int_distribution<size_t>(0, 6)(rng));
  std::uniform_int_distribution<int32_t> token(0, vocabulary - 1);
  for (auto& d : out) {
    d.resize(std::uniform_int_distribution<size_t>(0, 60)(rng));
    for (auto& t : d) t = token(rng);
  }
  return out;
}

Counts counts_of(const Documents& documents, int order, uint16_t day = kDay,
                 const std::string& source = "a") {
  return Counts::of(documents, order, {source, day, kOne}).value();
}

bool same(const Counts& a, const Counts& b) {
  const auto bytes = [](auto items) {
    return std::string_view(reinterpret_cast<const char*>(items.data()), items.size_bytes());
  };
  return bytes(a.nodes()) == bytes(b.nodes()) && bytes(a.successors()) == bytes(b.successors()) &&
         bytes(a.levels()) == bytes(b.levels()) && a.sources() == b.sources() &&
         bytes(a.discounts()) == bytes(b.discounts());
}

class CountsTest : public testing::Test {
 protected:
  CountsTest() : seed_(fresh_seed()), rng_(seed_), trace_(__FILE__, __LINE__, seed_) {}
  unsigned seed_;
  std::mt19937 rng_;
  testing::ScopedTrace trace_;
};

TEST_F(CountsTest, AgreeWithNaiveCounting) {
  for (int round = 0; round < 60; ++round) {
    const int order = 1 + round % kMaxOrder;
    const Documents documents = random_documents(rng_, 2 + round % 7);
    const Counts counts = counts_of(documents, order);
    EXPECT_EQ(contents(counts), count_naively(documents, order));
  }
}

TEST_F(CountsTest, LeftExtensionsCountDistinctPrecedingTokens) {
  for (int round = 0; round < 20; ++round) {
    const Counts counts = counts_of(random_documents(rng_, 4), 3);
    std::map<std::pair<std::vector<uint32_t>, uint32_t>, uint32_t> left;
    for (const auto& [ngram, weight] : contents(counts)) {
      auto context = ngram.first;
      if (context.empty()) continue;
      context.pop_back();  // the earliest token
      ++left[{context, ngram.second}];
    }
    for (uint32_t i = 0; i + 1 < counts.nodes().size(); ++i) {
      for (const Successor& s : counts.successors_of(i)) {
        const auto it = left.find({path_of(counts, i), s.token});
        EXPECT_EQ(s.left, it == left.end() ? 0 : it->second);
      }
    }
  }
}

TEST_F(CountsTest, MergingEqualsCountingTogether) {
  for (int round = 0; round < 30; ++round) {
    const int order = 1 + round % 4;
    const Documents a = random_documents(rng_, 5);
    const Documents b = random_documents(rng_, 5);
    Documents both = a;
    both.insert(both.end(), b.begin(), b.end());
    const Counts merged = Counts::merged(counts_of(a, order), counts_of(b, order)).value();
    EXPECT_TRUE(same(merged, counts_of(both, order)));
  }
}

TEST_F(CountsTest, MergingIsCommutativeAndAssociative) {
  const Counts a = counts_of(random_documents(rng_, 4), 2, kDay, "a");
  const Counts b = counts_of(random_documents(rng_, 4), 4, kDay + 1, "b");
  const Counts c = counts_of(random_documents(rng_, 4), 3, kDay + 1, "c");
  const auto add = [](const Counts& x, const Counts& y) { return Counts::merged(x, y).value(); };
  EXPECT_TRUE(same(add(a, b), add(b, a)));
  EXPECT_TRUE(same(add(add(a, b), c), add(a, add(b, c))));
}

TEST_F(CountsTest, MergingKeepsTheLatestDayAndItsSource) {
  const Counts merged =
      Counts::merged(counts_of({{1, 2}}, 1, kDay, "old"), counts_of({{1, 2}}, 1, kDay + 9, "new"))
          .value();
  for (const Successor& s : merged.successors()) {
    EXPECT_EQ(s.day, kDay + 9);
    EXPECT_EQ(merged.sources()[s.source], "new");
    EXPECT_EQ(s.weight, 2 * kOne);
  }
}

TEST_F(CountsTest, DecayHalvesAfter30DaysAndRemovesAfter90) {
  const Counts counts = counts_of({{1, 2, 3}}, 2);
  const auto weight_after = [&](int days) {
    const auto today = static_cast<uint16_t>(kDay + days);
    const Counts decayed = counts.decayed(today);
    return decayed.successors().empty() ? 0 : weight_on(decayed.successors()[0], today);
  };
  EXPECT_EQ(weight_after(0), kOne);
  EXPECT_EQ(weight_after(29), kOne);
  EXPECT_EQ(weight_after(30), kOne / 2);
  EXPECT_EQ(weight_after(89), kOne / 2);
  EXPECT_EQ(weight_after(90), 0);
  EXPECT_EQ(counts.decayed(kDay + 90).nodes().size(), 2) << "the root and the sentinel";
}

TEST_F(CountsTest, DecayIsIdempotentAndUndoneByRefreshing) {
  const Counts counts = counts_of(random_documents(rng_, 4), 3);
  const Counts once = counts.decayed(kDay + 40);
  EXPECT_TRUE(same(once, once.decayed(kDay + 40)));
  EXPECT_TRUE(same(once, counts.decayed(kDay + 35).decayed(kDay + 40)));
  const Counts old = counts_of({{1, 2}}, 1);
  const Counts refreshed =
      Counts::merged(old.decayed(kDay + 80), counts_of({{1, 2}}, 1, kDay + 80)).value();
  const Counts later = refreshed.decayed(kDay + 100);
  EXPECT_FALSE(later.successors().empty());
  for (const Successor& s : later.successors()) EXPECT_EQ(weight_on(s, kDay + 100), 2 * kOne);
}

TEST_F(CountsTest, PruningKeepsFrequentNgramsAndTheirContexts) {
  const Documents documents = {{1, 2, 3, 1, 2, 3, 1, 2, 4}};
  const Counts pruned = counts_of(documents, 2).pruned(2 * kOne, 1);
  Reference expected;
  for (const auto& [ngram, weight] : count_naively(documents, 2)) {
    if (ngram.first.empty() || weight >= 2 * kOne) expected[ngram] = weight;
  }
  EXPECT_EQ(contents(pruned), expected);
}

TEST_F(CountsTest, RejectsTokensOutOfRange) {
  for (const int32_t token : {-1, static_cast<int32_t>(kMaxTokens)}) {
    const auto counts = Counts::of(Documents{{1, token}}, 2, {"a", kDay, kOne});
    ASSERT_FALSE(counts.ok());
    EXPECT_THAT(counts.error().message, testing::HasSubstr(std::to_string(token)));
  }
}

TEST_F(CountsTest, WeightsSaturate) {
  const Counts heavy = Counts::of(Documents{{1}}, 1, {"a", kDay, UINT32_MAX - 1}).value();
  const Counts both = Counts::merged(heavy, heavy).value();
  EXPECT_EQ(both.successors()[0].weight, UINT32_MAX);
}

TEST(Counts, IndexesBeyondTheTableAreRejectedBeforeUse) {
  // Three contexts: the root and two below it. The second one claims a thousand of four entries;
  // the third one's index is valid again.
  const Parts good = {1,
                      0,
                      {0, 1, 3},
                      {{0, 0, 0, 0}, {0, 1, 2, 0}, {0, 2, 3, 0}, {0, 0, 4, 0}},
                      {{1, kOne}, {2, kOne}, {3, kOne}, {4, kOne}},
                      {""}};
  EXPECT_TRUE(Counts::from_parts(good).ok());
  Parts bad = good;
  bad.nodes[2].first = 1000;
  const auto refused = Counts::from_parts(bad);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("without a context"), std::string::npos);
}

}  // namespace
}  // namespace chimere::engram
