#include "quantize/allocate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::quantize {
namespace {

using Items = std::vector<std::vector<Choice>>;

// Items like a model's tensors: losses fall by about four for each bit.
Items random_items(std::mt19937& random, size_t n, size_t choices) {
  std::lognormal_distribution<double> sensitivity(0, 2);
  std::uniform_int_distribution<uint64_t> rows(1, 64);
  std::uniform_real_distribution<double> noise(0.7, 1.4);
  Items items(n);
  for (auto& item : items) {
    const uint64_t size = rows(random);
    const double scale = sensitivity(random);
    for (size_t c = 0; c < choices; ++c) {
      item.push_back(
          {size * (3 + 2 * c), scale * noise(random) / static_cast<double>(1U << (2 * c))});
    }
    std::shuffle(item.begin(), item.end(), random);
  }
  return items;
}

double brute_force(const Items& items, uint64_t budget, size_t at, uint64_t bytes, double loss) {
  if (bytes > budget) return std::numeric_limits<double>::max();
  if (at == items.size()) return loss;
  double best = std::numeric_limits<double>::max();
  for (const Choice& c : items[at]) {
    best = std::min(best, brute_force(items, budget, at + 1, bytes + c.bytes, loss + c.loss));
  }
  return best;
}

uint64_t bytes_of_all(const Items& items, bool largest) {
  uint64_t sum = 0;
  for (const auto& item : items) {
    const auto [low, high] = std::minmax_element(
        item.begin(), item.end(), [](auto& a, auto& b) { return a.bytes < b.bytes; });
    sum += largest ? high->bytes : low->bytes;
  }
  return sum;
}

// The search of the original: mutate the best plans, repair those that are too large.
double evolve(const Items& items, uint64_t budget, int generations, std::mt19937& random) {
  using Genes = std::vector<size_t>;
  const auto bytes = [&](const Genes& g) {
    uint64_t sum = 0;
    for (size_t i = 0; i < g.size(); ++i) sum += items[i][g[i]].bytes;
    return sum;
  };
  const auto loss = [&](const Genes& g) {
    double sum = 0;
    for (size_t i = 0; i < g.size(); ++i) sum += items[i][g[i]].loss;
    return sum;
  };
  Genes smallest(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t c = 0; c < items[i].size(); ++c) {
      if (items[i][c].bytes < items[i][smallest[i]].bytes) smallest[i] = c;
    }
  }
  const auto repair = [&](Genes& g) {
    while (bytes(g) > budget) {
      const size_t i = random() % g.size();
      g[i] = smallest[i];
    }
  };
  constexpr size_t kPopulation = 40;
  std::vector<Genes> population(kPopulation, smallest);
  for (int generation = 0; generation < generations; ++generation) {
    for (size_t p = 0; p < kPopulation; ++p) {
      Genes child = population[p];
      const Genes& other = population[random() % kPopulation];
      for (size_t i = 0; i < child.size(); ++i) {
        if (random() % 2 == 0) child[i] = other[i];
        if (random() % child.size() < 2) child[i] = random() % items[i].size();
      }
      repair(child);
      population.push_back(std::move(child));
    }
    std::ranges::sort(population, {}, loss);
    population.resize(kPopulation);
  }
  return loss(population.front());
}

TEST(Allocate, FindsTheOptimum) {
  const unsigned seed = fresh_seed();
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const Items items = random_items(random, 1 + static_cast<size_t>(round) % 7, 4);
    const uint64_t least = bytes_of_all(items, false);
    const uint64_t most = bytes_of_all(items, true);
    for (const uint64_t budget :
         {least, least + (most - least) / 5, (least + most) / 2, most, 2 * most}) {
      const auto found = allocate(items, budget);
      ASSERT_TRUE(found.ok());
      EXPECT_LE(found->bytes, budget);
      EXPECT_NEAR(found->loss, brute_force(items, budget, 0, 0, 0), 1e-9 * found->loss);
      EXPECT_EQ(found->gap, 0);
      uint64_t bytes = 0;
      for (size_t i = 0; i < items.size(); ++i) bytes += items[i][found->chosen[i]].bytes;
      EXPECT_EQ(bytes, found->bytes);
    }
    EXPECT_EQ(allocate(items, least - 1).error().code, Error::Code::kInvalidArgument);
  }
}

TEST(Allocate, IsExactOnManyTensorsAndNoWorseThanEvolution) {
  const unsigned seed = fresh_seed();
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, seed);
  std::mt19937 random(seed);
  const Items items = random_items(random, 300, 12);
  const uint64_t budget = bytes_of_all(items, false) * 2;
  const auto found = allocate(items, budget);
  ASSERT_TRUE(found.ok());
  EXPECT_LE(found->bytes, budget);
  EXPECT_LE(found->gap, 1e-6 * found->loss);
  EXPECT_LE(found->loss, evolve(items, budget, 100, random));
}

TEST(Allocate, EqualLossesAndSingleChoices) {
  const Items alike = {{{10, 1}, {20, 1}}, {{5, 0}}, {{8, 0}, {7, 0}}};
  const auto found = allocate(alike, 100);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bytes, 22U);
  EXPECT_TRUE(allocate({}, 0).ok());
}

}  // namespace
}  // namespace chimere::quantize
