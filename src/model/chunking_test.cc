#include "model/chunking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Chunking, EverySixtyFour) {
  EXPECT_THAT(chunk_sizes({}, {}), IsEmpty());
  EXPECT_THAT(chunk_sizes(std::vector<int32_t>(1, 7), {}), ElementsAre(1));
  EXPECT_THAT(chunk_sizes(std::vector<int32_t>(64, 7), {}), ElementsAre(64));
  EXPECT_THAT(chunk_sizes(std::vector<int32_t>(150, 7), {}), ElementsAre(64, 64, 22));
}

TEST(Chunking, RestartsAtMessages) {
  std::vector<int32_t> tokens(140, 7);
  tokens[0] = tokens[10] = tokens[11] = 1;
  tokens[75] = 2;
  const std::vector<int32_t> starts = {1, 2};
  EXPECT_THAT(chunk_sizes(tokens, starts), ElementsAre(10, 1, 64, 64, 1));
}

TEST(Chunking, ChunkingFromABoundaryGivesTheRemainingChunks) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const std::vector<int32_t> starts = {0};
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> tokens(1 + rng() % 400);
    for (int32_t& t : tokens) t = static_cast<int32_t>(rng() % 60);
    const std::vector<int32_t> whole = chunk_sizes(tokens, starts);
    EXPECT_EQ(std::accumulate(whole.begin(), whole.end(), size_t{0}), tokens.size());
    size_t at = 0;
    for (size_t c = 0; c < whole.size(); ++c) {
      const std::span<const int32_t> rest = std::span(tokens).subspan(at);
      EXPECT_EQ(chunk_sizes(rest, starts),
                std::vector<int32_t>(whole.begin() + static_cast<std::ptrdiff_t>(c), whole.end()));
      at += static_cast<size_t>(whole[c]);
    }
  }
}

}  // namespace
}  // namespace chimere::model
