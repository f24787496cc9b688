#include "engine/prefix_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/fresh_seed.h"
#include "model/chunking.h"

namespace chimere::engine {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int32_t kStart[] = {1};

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<int64_t> ends;
  std::vector<int64_t> points;
};

/// A prompt of messages of these lengths, each with a start token.
Prompt make_prompt(const std::vector<int>& messages) {
  Prompt p;
  for (const int length : messages) {
    p.tokens.push_back(1);
    p.tokens.insert(p.tokens.end(), static_cast<size_t>(length - 1), 7);
  }
  int64_t end = 0;
  for (const int32_t size : model::chunk_sizes(p.tokens, kStart)) p.ends.push_back(end += size);
  p.points = prefix_points(p.tokens, p.ends, kStart);
  return p;
}

TEST(PrefixPoints, TheEndOfALongSystemPromptIsAPoint) {
  const Prompt p = make_prompt({1000, 9, 3});
  EXPECT_THAT(p.points, Contains(1000));
  EXPECT_THAT(p.points, Contains(1009));
}

TEST(PrefixPoints, TheNewestMessagesCanBeReplacedAndTheSystemPromptShared) {
  std::vector<int> lengths = {500};
  for (int turn = 0; turn < 40; ++turn) lengths.insert(lengths.end(), {30, 170});
  lengths.insert(lengths.end(), {25, 3});
  const Prompt p = make_prompt(lengths);
  const auto size = static_cast<int64_t>(p.tokens.size());
  for (const int64_t wanted : {int64_t{500}, size - 3, size - 28, size - 198}) {
    EXPECT_THAT(p.points, Contains(wanted));
  }
  EXPECT_LE(p.points.size(), kMaxPrefixPoints);
  // Editing an earlier message recomputes little more than what follows it.
  for (int64_t at = 700; at < size; at += 100) {
    const auto next = std::ranges::upper_bound(p.points, at);
    const int64_t from = next == p.points.begin() ? 0 : *(next - 1);
    EXPECT_LE(at - from, 2 * (size - at) + 200) << at;
  }
}

TEST(PrefixPoints, AreBoundariesOfEveryLongerPrompt) {
  std::mt19937 random(fresh_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<int> lengths(1 + random() % 20);
    for (int& l : lengths) l = static_cast<int>(1 + random() % 300);
    const Prompt p = make_prompt(lengths);
    EXPECT_TRUE(std::ranges::is_sorted(p.points));
    EXPECT_LE(p.points.size(), kMaxPrefixPoints);
    EXPECT_THAT(p.points, Not(Contains(0)));
    Prompt longer = p;
    longer.tokens.insert(longer.tokens.end(), 1 + random() % 100, 9);
    std::vector<int64_t> ends;
    int64_t end = 0;
    for (const int32_t size : model::chunk_sizes(longer.tokens, kStart))
      ends.push_back(end += size);
    for (const int64_t point : p.points) {
      EXPECT_TRUE(std::ranges::binary_search(p.ends, point));
      EXPECT_TRUE(std::ranges::binary_search(ends, point));
    }
  }
  EXPECT_THAT(make_prompt({20}).points, IsEmpty());
}

}  // namespace
}  // namespace chimere::engine
