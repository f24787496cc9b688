#include "engram/cuckoo_filter.h"

#include <gtest/gtest.h>

#include "base/fresh_seed.h"

namespace chimere::engram {
namespace {

std::vector<uint64_t> hashes_from(uint64_t first, size_t n) {
  std::vector<uint64_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = mix(first + i);
  return out;
}

TEST(CuckooFilter, HasNoFalseNegatives) {
  const uint64_t first = fresh_seed();
  for (const size_t n : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}, size_t{200000}}) {
    const auto hashes = hashes_from(first, n);
    const auto buckets = CuckooFilter::build(hashes);
    const CuckooFilter filter(buckets);
    for (const uint64_t h : hashes) ASSERT_TRUE(filter.may_contain(h)) << first << " " << n;
  }
}

TEST(CuckooFilter, HasFewFalsePositives) {
  const uint64_t first = fresh_seed();
  // The fullest filter of its size.
  const size_t n = size_t{4} * 65536 * 95 / 100 - 8;
  const auto buckets = CuckooFilter::build(hashes_from(first, n));
  EXPECT_EQ(buckets.size(), 65536);
  const CuckooFilter filter(buckets);
  const auto others = hashes_from(first + (1ULL << 40), 1000000);
  size_t taken = 0;
  for (const uint64_t h : others) taken += filter.may_contain(h) ? 1 : 0;
  EXPECT_LT(static_cast<double>(taken) / static_cast<double>(others.size()), 0.0005) << first;
}

TEST(CuckooFilter, WithoutBucketsMayContainEverything) {
  EXPECT_TRUE(CuckooFilter().may_contain(7));
}

TEST(CuckooFilter, AnEmptySetContainsNothing) {
  const auto buckets = CuckooFilter::build({});
  for (const uint64_t h : hashes_from(1, 1000)) EXPECT_FALSE(CuckooFilter(buckets).may_contain(h));
}

}  // namespace
}  // namespace chimere::engram
