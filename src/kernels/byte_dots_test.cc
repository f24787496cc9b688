#include "kernels/byte_dots.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace chimere::kernels {
namespace {

TEST(ByteDots, EqualTheScalarOnes) {
  std::mt19937 random(5);
  std::uniform_int_distribution<int> byte(-128, 127);
  std::uniform_int_distribution<int> element(-2047, 2047);
  for (const int64_t n : {1, 15, 16, 31, 32, 33, 96, 256, 384, 1000, 8192}) {
    constexpr int64_t kRows = 7;
    std::vector<int8_t> rows(static_cast<size_t>(kRows * n));
    std::vector<int16_t> query(static_cast<size_t>(n));
    for (int8_t& x : rows) x = static_cast<int8_t>(byte(random));
    for (int16_t& x : query) x = static_cast<int16_t>(element(random));
    std::vector<int32_t> sums(kRows);
    std::vector<int32_t> plain(kRows);
    byte_dots(rows.data(), kRows, n, query.data(), sums.data());
    ref::byte_dots(rows.data(), kRows, n, query.data(), plain.data());
    EXPECT_EQ(sums, plain) << n;
  }
}

TEST(ByteDots, AreExactAtTheLimit) {
  constexpr int64_t n = 8192;
  const std::vector<int8_t> row(n, -128);
  const std::vector<int16_t> query(n, 2047);
  int32_t sum = 0;
  byte_dots(row.data(), 1, n, query.data(), &sum);
  EXPECT_EQ(sum, -n * 128 * 2047);
}

}  // namespace
}  // namespace chimere::kernels
