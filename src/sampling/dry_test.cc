#include "sampling/dry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::sampling {
namespace {

using Penalties = std::map<int32_t, double>;

Penalties got(const std::vector<int32_t>& history, const DryParams& params) {
  Penalties out;
  for (const LogitAdjustment& e : dry_adjustments(history, params)) {
    EXPECT_EQ(e.repeat, 1);
    EXPECT_TRUE(out.emplace(e.id, e.minus).second);
  }
  return out;
}

/// The definition, by comparing all pairs of positions.
Penalties expected(std::vector<int32_t> tokens, const DryParams& p) {
  if (p.window > 0 && tokens.size() > static_cast<size_t>(p.window)) {
    tokens.erase(tokens.begin(), tokens.end() - p.window);
  }
  const auto n = static_cast<int>(tokens.size());
  // Number of tokens after the last breaker.
  int limit = n;
  for (int at = n - 1; at >= 0 && limit == n; --at) {
    int longest = p.breakers->single.contains(tokens[at]) ? 1 : 0;
    if (const auto it = p.breakers->longer.find(tokens[at]); it != p.breakers->longer.end()) {
      for (const auto& rest : it->second) {
        const auto size = static_cast<int>(rest.size());
        if (at + size < n && std::equal(rest.begin(), rest.end(), tokens.begin() + at + 1)) {
          longest = std::max(longest, 1 + size);
        }
      }
    }
    if (longest > 0) limit = n - (at + longest);
  }
  Penalties out;
  for (int end = 0; end + 1 < n; ++end) {  // a sequence that ends with tokens[end]
    int length = 0;
    while (length <= end && tokens[end - length] == tokens[n - 1 - length]) ++length;
    length = std::min(length, limit);
    const int32_t next = tokens[end + 1];
    if (length < p.allowed_length || limit < p.allowed_length) continue;
    if (n <= p.allowed_length || p.breakers->single.contains(next)) continue;
    double& worst = out[next];
    worst = std::max(
        worst, p.multiplier * std::pow(static_cast<double>(p.base), length - p.allowed_length));
  }
  return out;
}

TEST(Dry, PenalisesTokensThatContinueARepetition) {
  DryParams p;
  p.multiplier = 0.8F;
  // "1 2 3" occurred before, followed by 4: length 3, of which 2 are free.
  EXPECT_EQ(got({1, 2, 3, 4, 9, 1, 2, 3}, p).size(), 1U);
  EXPECT_NEAR(got({1, 2, 3, 4, 9, 1, 2, 3}, p)[4], 0.8 * 1.75, 1e-6);
  EXPECT_NEAR(got({2, 3, 4, 9, 2, 3}, p)[4], 0.8, 1e-6);
  EXPECT_TRUE(got({3, 4, 9, 3}, p).empty());
  EXPECT_TRUE(got({}, p).empty());
}

TEST(Dry, AgreesWithTheDefinition) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const int alphabet = 2 + static_cast<int>(random() % 4);
    const auto token = [&] { return static_cast<int32_t>(random() % alphabet); };
    std::vector<int32_t> history(random() % 80);
    for (int32_t& t : history) t = token();
    auto breakers = std::make_shared<DryBreakers>();
    if (random() % 2 == 0) breakers->single.insert(token());
    if (random() % 2 == 0) breakers->longer[token()].push_back({token(), token()});
    if (random() % 2 == 0) breakers->longer[token()].push_back({token()});
    DryParams p;
    p.multiplier = 0.5F;
    p.base = random() % 3 == 0 ? 1.F : 1.3F;
    p.allowed_length = static_cast<int32_t>(random() % 4);
    p.window = std::array{-1, 10, 40, 1}[random() % 4];
    p.breakers = breakers;
    const Penalties want = expected(history, p);
    const Penalties have = got(history, p);
    ASSERT_EQ(have.size(), want.size());
    for (const auto& [id, penalty] : want) {
      ASSERT_TRUE(have.contains(id));
      ASSERT_NEAR(have.at(id), penalty, 1e-4 * penalty);
    }
  }
}

TEST(Dry, LongRepetitionsStayFiniteAndFast) {
  const std::vector<int32_t> history(200'000, 7);
  DryParams p;
  p.multiplier = 2;
  const auto penalties = got(history, p);
  ASSERT_EQ(penalties.size(), 1U);
  EXPECT_TRUE(std::isfinite(penalties.at(7)));
  EXPECT_GT(penalties.at(7), 1e20);
}

TEST(Dry, NeutralValuesTurnItOff) {
  const std::vector<int32_t> history = {1, 2, 3, 1, 2, 3, 1, 2, 3};
  EXPECT_TRUE(dry_adjustments(history, {}).empty());
  DryParams p;
  p.multiplier = 1;
  EXPECT_FALSE(dry_adjustments(history, p).empty());
  p.base = 0.5F;
  EXPECT_TRUE(dry_adjustments(history, p).empty());
  p.base = 1.75F;
  p.window = 0;
  EXPECT_TRUE(dry_adjustments(history, p).empty());
}

}  // namespace
}  // namespace chimere::sampling
