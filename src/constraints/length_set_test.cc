#include "constraints/length_set.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/fresh_seed.h"

namespace chimere::constraints {
namespace {

constexpr uint64_t kLimit = 60;
using Members = std::vector<bool>;

Members sum(const Members& a, const Members& b) {
  Members out(kLimit);
  for (size_t i = 0; i < kLimit; ++i) {
    for (size_t j = 0; a[i] && i + j < kLimit; ++j) out[i + j] = out[i + j] || b[j];
  }
  return out;
}

Members unite(Members a, const Members& b) {
  for (size_t i = 0; i < kLimit; ++i) a[i] = a[i] || b[i];
  return a;
}

struct Both {
  std::optional<LengthSet> set;
  Members members;
};

Both random_set(std::mt19937& random, int depth) {
  if (depth == 0) {
    const uint64_t first = random() % 5;
    const uint64_t last = random() % 8 == 0 ? LengthSet::kInfinite : first + random() % 4;
    Both out = {LengthSet::of(first, last), Members(kLimit)};
    for (uint64_t i = first; i < kLimit && i <= last; ++i) out.members[i] = true;
    return out;
  }
  const Both a = random_set(random, depth - 1);
  if (!a.set) return a;
  if (random() % 3 == 0) {
    const uint64_t min = random() % 4;
    const uint64_t max = random() % 3 == 0 ? LengthSet::kInfinite : min + random() % 4;
    Both out = {a.set->repeat(min, max), Members(kLimit)};
    Members power(kLimit);
    power[0] = true;
    for (uint64_t count = 0; count <= kLimit && count <= max; ++count) {
      if (count >= min) out.members = unite(out.members, power);
      power = sum(power, a.members);
    }
    return out;
  }
  const Both b = random_set(random, depth - 1);
  if (!b.set) return b;
  if (random() % 2 == 0) return {a.set->unite(*b.set), unite(a.members, b.members)};
  return {a.set->add(*b.set), sum(a.members, b.members)};
}

TEST(LengthSet, AgreesWithSetsOfIntegers) {
  std::mt19937 random(fresh_seed());
  const auto seed = random();
  random.seed(seed);
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  int known = 0;
  for (int round = 0; round < 3'000; ++round) {
    const Both both = random_set(random, 1 + static_cast<int>(random() % 3));
    if (!both.set) continue;
    ++known;
    for (uint64_t i = 0; i < kLimit; ++i) {
      ASSERT_EQ(both.set->meets(i, i), both.members[i]) << i << " round " << round;
    }
  }
  EXPECT_GT(known, 2'000);
}

TEST(LengthSet, LargeCounts) {
  const auto set = LengthSet::of(1, 3).repeat(0, 1'000'000'000);
  ASSERT_TRUE(set.has_value());
  EXPECT_EQ(set->max(), 3'000'000'000U);
  EXPECT_EQ(set->next(5), 5U);
  EXPECT_FALSE(set->next(3'000'000'001U).has_value());
}

}  // namespace
}  // namespace chimere::constraints
