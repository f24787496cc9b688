#include "sampling/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::sampling {
namespace {

TEST(Divergence, AgreesWithTheDefinitionInLongDouble) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 30; ++round) {
    const size_t n = 2 + random() % 2000;
    std::vector<float> a(n);
    std::vector<float> b(n);
    for (size_t i = 0; i < n; ++i) {
      a[i] = normal(random);
      b[i] = a[i] + normal(random) * (round % 2 ? 0.01F : 1.F);
    }
    const auto log_sum = [](const std::vector<float>& v) {
      long double sum = 0;
      for (const float x : v) sum += std::exp(static_cast<long double>(x));
      return std::log(sum);
    };
    const long double za = log_sum(a);
    const long double zb = log_sum(b);
    long double expected = 0;
    for (size_t i = 0; i < n; ++i) expected += std::exp(a[i] - za) * ((a[i] - za) - (b[i] - zb));
    const auto got = divergence(a, b);
    ASSERT_TRUE(got.ok());
    EXPECT_NEAR(got->kl, static_cast<double>(expected), 1e-12);
    EXPECT_EQ(got->same_top, std::max_element(a.begin(), a.end()) - a.begin() ==
                                 std::max_element(b.begin(), b.end()) - b.begin());
    EXPECT_LT(divergence(a, a)->kl, 1e-12);
  }
}

TEST(Divergence, IsInfiniteOnlyIfTheOtherMasksAToken) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const std::vector<float> all = {1, 2, 3};
  const std::vector<float> fewer = {kMasked, 2, 3};
  EXPECT_TRUE(std::isinf(divergence(all, fewer)->kl));
  const auto one_way = divergence(fewer, all);
  ASSERT_TRUE(one_way.ok());
  // p is q without its first token: ln(1 / (1 - q_0)).
  const double q0 = std::exp(1.0) / (std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(one_way->kl, -std::log(1 - q0), 1e-12);
}

TEST(Divergence, RejectsIncomparableLogits) {
  EXPECT_FALSE(divergence(std::vector<float>{1, 2}, std::vector<float>{1, 2, 3}).ok());
  EXPECT_FALSE(divergence(std::vector<float>{1, NAN}, std::vector<float>{1, 2}).ok());
  EXPECT_FALSE(divergence(std::vector<float>{1, 2}, std::vector<float>{1, NAN}).ok());
}

}  // namespace
}  // namespace chimere::sampling
