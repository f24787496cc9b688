#include "sampling/log_softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/fresh_seed.h"
#include "kernels/log_sum_exp.h"

namespace chimere::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Summarise, AgreesWithTheDefinitionInLongDouble) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    const size_t n = 1 + random() % 5000;
    std::normal_distribution<float> normal(static_cast<float>(round % 2 ? 1e4 : 0),
                                           1.F + static_cast<float>(round));
    std::vector<float> logits(n);
    for (float& l : logits) l = normal(random);
    if (n > 2) logits[1] = -kInfinity;
    const double temperature = round % 3 == 0 ? 1.0 : 0.3 + round * 0.05;
    const float largest = *std::max_element(logits.begin(), logits.end());
    long double sum = 0;
    for (const float l : logits)
      sum += std::exp((static_cast<long double>(l) - largest) / temperature);
    long double entropy = 0;
    for (const float l : logits) {
      const long double x = (static_cast<long double>(l) - largest) / temperature - std::log(sum);
      if (std::isfinite(x)) entropy -= std::exp(x) * x;
    }
    const Distribution d = summarise(logits, largest, 1 / temperature);
    const auto log_sum = static_cast<double>(largest / temperature + std::log(sum));
    EXPECT_NEAR(d.log_sum, log_sum, 1e-14 * (std::fabs(log_sum) + 10));
    EXPECT_NEAR(d.entropy, static_cast<double>(entropy), 1e-11);
    EXPECT_NEAR(d.p_max, static_cast<double>(1 / sum), 1e-13);
  }
}

TEST(Summarise, SinglePrecisionIsCloseToDoublePrecision) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const size_t n = 1 + random() % 5000;
    std::normal_distribution<float> normal(0, 0.5F + static_cast<float>(round) / 4);
    std::vector<float> logits(n);
    for (float& l : logits) l = normal(random);
    if (n > 2) logits[1] = -kInfinity;
    const float largest = find_largest(logits)->value;
    const Distribution exact = summarise(logits, largest);
    const Distribution fast = distribution_of(log_sum_exp(logits));
    EXPECT_NEAR(fast.log_sum, exact.log_sum, 2e-6);
    EXPECT_NEAR(fast.entropy, exact.entropy, 1e-5);
    EXPECT_NEAR(fast.p_max, exact.p_max, 1e-6);
  }
}

TEST(LogSumExp, HasTheBitsOfItsDefinition) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const size_t n = 1 + random() % (round % 8 == 0 ? 100000 : 3000);
    std::normal_distribution<float> normal(0, 0.5F + static_cast<float>(round));
    std::vector<float> logits(n);
    for (float& l : logits) l = random() % 50 == 0 ? -kInfinity : normal(random);
    if (round % 3 == 0) std::fill_n(logits.begin(), std::min<size_t>(n, 600), -kInfinity);
    const kernels::LogSumExp got = log_sum_exp(logits);
    const kernels::LogSumExp want =
        kernels::row_log_sum_exp(logits.data(), static_cast<int64_t>(n));
    EXPECT_EQ(got.e, want.e) << n;
    EXPECT_EQ(got.xe, want.xe) << n;
    EXPECT_EQ(got.largest, want.largest) << n;
    std::vector<float> raised = logits;
    std::vector<uint32_t> set((n + 31) / 32, ~0U);
    for (size_t i = 0; i < n; ++i) {
      if (logits[i] != -kInfinity) continue;
      raised[i] = 1e4F;
      set[i / 32] &= ~(1U << (i % 32));
    }
    const kernels::LogSumExp masked = log_sum_exp(raised, set);
    EXPECT_EQ(masked.e, want.e) << n;
    EXPECT_EQ(masked.xe, want.xe) << n;
    EXPECT_EQ(masked.largest, want.largest) << n;
  }
}

TEST(TopLogprobs, SumToOneOverTheWholeVocabulary) {
  const std::vector<float> logits = {0.5F, -2, 3, 3, 80};
  const Distribution d = summarise(logits, 80);
  const auto top = top_logprobs(logits, d, 5);
  double sum = 0;
  for (const Candidate& c : top) sum += std::exp(c.value);
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(top[0].id, 4);
  EXPECT_EQ(top[1].id, 2);
  EXPECT_EQ(top[2].id, 3);
}

}  // namespace
}  // namespace chimere::sampling
