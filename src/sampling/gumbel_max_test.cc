#include "sampling/gumbel_max.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/philox.h"

namespace chimere::sampling {
namespace {

/// The definition, applied to every token.
int32_t winner(const std::vector<float>& logits, const Draw& draw) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t id = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isinf(logits[i])) continue;
    const double u = kernels::uniform(draw.seed, draw.position, static_cast<uint32_t>(i));
    const double score = logits[i] * draw.scale - std::log(-std::log(u));
    if (score > best) {
      best = score;
      id = static_cast<int32_t>(i);
    }
  }
  return id;
}

TEST(GumbelMax, BlocksAndListsAgreeWithTheDefinition) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    const size_t n = 1 + random() % 3000;
    const float spread = std::array{0.F, 0.1F, 1.F, 3.F, 20.F, 1000.F}[random() % 6];
    std::normal_distribution<float> normal(round % 5 == 0 ? 500.F : 0.F, 1);
    std::vector<float> logits(n);
    std::vector<Candidate> list;
    for (size_t i = 0; i < n; ++i) {
      logits[i] = normal(random) * spread;
      if (random() % 7 == 0 && i > 0) logits[i] = -std::numeric_limits<float>::infinity();
      list.push_back({logits[i], static_cast<int32_t>(i)});
    }
    const Candidate largest = *std::min_element(list.begin(), list.end());
    std::ranges::shuffle(list, random);
    for (uint64_t position = 0; position < 20; ++position) {
      const Draw draw{random(), position << 31, std::array{0.2, 1.0, 1000.0}[random() % 3]};
      const int32_t expected = winner(logits, draw);
      ASSERT_EQ(gumbel_argmax(logits, largest, draw), expected) << n << ' ' << spread;
      ASSERT_EQ(gumbel_argmax(list, draw), expected) << n << ' ' << spread;
      // Tokens outside a set are as good as masked, whatever their logits.
      std::vector<float> raised = logits;
      std::vector<uint32_t> set((n + 31) / 32, ~0U);
      for (size_t i = 0; i < n; ++i) {
        if (!std::isinf(logits[i])) continue;
        raised[i] = largest.value + 1;
        set[i / 32] &= ~(1U << (i % 32));
      }
      ASSERT_EQ(gumbel_argmax(raised, largest, draw, set), expected) << n << ' ' << spread;
    }
  }
}

TEST(GumbelMax, NoneWinsWhenAllAreMasked) {
  const std::vector<Candidate> none;
  EXPECT_EQ(gumbel_argmax(none, Draw{}), -1);
}

}  // namespace
}  // namespace chimere::sampling
