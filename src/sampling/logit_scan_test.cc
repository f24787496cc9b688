#include "sampling/logit_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Candidate> select_largest(const std::vector<float>& logits, int64_t k) {
  LogitScan scan;
  scan_logits(logits, scan);
  std::vector<Candidate> kept;
  select_largest(logits, scan, k, kept);
  return kept;
}

TEST(SelectLargest, EqualsAFullSortWithTiesToTheLowerId) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const size_t n = 1 + random() % 3000;
    const unsigned distinct = 1 + random() % 400;  // few distinct values: many ties
    std::vector<float> logits(n);
    for (float& l : logits) l = static_cast<float>(random() % distinct) - 100;
    if (round % 3 == 0)
      std::sort(logits.begin(), logits.end());  // worst case: each logit is a new maximum
    std::vector<Candidate> expected;
    for (size_t i = 0; i < n; ++i) expected.push_back({logits[i], static_cast<int32_t>(i)});
    std::sort(expected.begin(), expected.end());
    const int64_t k = random() % (n + 5);
    expected.resize(std::min(n, static_cast<size_t>(k)));
    const std::vector<Candidate> got = select_largest(logits, k);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].id, expected[i].id);
      ASSERT_EQ(got[i].value, expected[i].value);
    }
  }
}

TEST(SelectLargest, NeverReturnsMaskedTokens) {
  const std::vector<float> logits = {-kInfinity, 2, -kInfinity, 1};
  const auto got = select_largest(logits, 4);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].id, 1);
  EXPECT_EQ(got[1].id, 3);
  EXPECT_TRUE(select_largest(logits, 0).empty());
}

TEST(FindLargest, RejectsInvalidLogits) {
  EXPECT_EQ(find_largest(std::vector<float>{1, 3, 3}).value().id, 1);
  EXPECT_FALSE(find_largest(std::vector<float>{1, NAN, 0}).ok());
  EXPECT_FALSE(find_largest(std::vector<float>{1, kInfinity}).ok());
  EXPECT_FALSE(find_largest(std::vector<float>{-kInfinity, -kInfinity}).ok());
  EXPECT_FALSE(find_largest(std::span<const float>()).ok());
}

TEST(FindLargest, AgreesWithThePlainLoop) {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(1 + random() % 1500);
    for (float& l : logits) l = static_cast<float>(random() % 900) - 450;
    if (round % 3 == 0) logits[random() % logits.size()] = -kInfinity;
    const auto first = std::ranges::max_element(logits);
    const auto found = find_largest(logits);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->id, first - logits.begin());
    EXPECT_EQ(found->value, *first);
    logits[random() % logits.size()] = round % 2 == 0 ? -NAN : kInfinity;
    EXPECT_FALSE(find_largest(logits).ok());
  }
}

/// Sets of many and of few tokens, with whole words, and shorter than the vocabulary.
TEST(ScanLogits, OfASetIsTheScanOfMaskedLogits) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 1 + random() % 5000;
    std::vector<float> logits(n);
    for (float& l : logits) l = static_cast<float>(random() % 900) - 450;
    std::vector<uint32_t> set((n + 31) / 32);
    const uint32_t kind = random() % 4;
    for (uint32_t& word : set) {
      const bool rare = random() % 40 == 0;
      if (kind == 0) word = static_cast<uint32_t>(random());
      if (kind == 1) word = rare ? ~(1U << random() % 32) : ~0U;
      if (kind == 2) word = rare ? 1U << random() % 32 : 0;
      if (kind == 3) word = ~0U;
    }
    if (random() % 4 == 0) set.resize(1 + random() % set.size());
    std::vector<float> masked = logits;
    for (size_t i = 0; i < n; ++i) {
      if (!kernels::contains(set, static_cast<int32_t>(i))) masked[i] = -kInfinity;
    }
    LogitScan expected;
    LogitScan got;
    scan_logits(masked, expected);
    scan_logits(logits, set, got);
    ASSERT_EQ(got.largest.id, expected.largest.id);
    ASSERT_EQ(got.largest.value, expected.largest.value);
    ASSERT_EQ(got.masked, expected.masked);
    ASSERT_EQ(got.maxima, expected.maxima);
    std::vector<Candidate> most;
    std::vector<Candidate> most_expected;
    const int64_t k = 1 + random() % 300;
    select_largest(masked, expected, k, most_expected);
    select_largest(logits, got, k, most, set);
    ASSERT_EQ(most.size(), most_expected.size());
    for (size_t i = 0; i < most.size(); ++i) ASSERT_EQ(most[i].id, most_expected[i].id);
    logits[random() % n] = round % 2 == 0 ? -NAN : kInfinity;
    scan_logits(logits, set, got);
    EXPECT_FALSE(find_largest(got).ok());
  }
}

}  // namespace
}  // namespace chimere::sampling
