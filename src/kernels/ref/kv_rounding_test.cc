#include "kernels/ref/kv_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <vector>

#include "base/fresh_seed.h"
#include "kernels/batch_test_data.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {
namespace {

TEST(RotateHead, IsTheMatrixOfSignsOverTheRootOfItsSize) {
  for (const int n : {16, 48, 64, 80, 256}) {
    const int block = n & -n;
    for (int column = 0; column < n; ++column) {
      std::vector<float> x(static_cast<size_t>(n), 0.0F);
      x[static_cast<size_t>(column)] = 1;
      rotate_head(x.data(), n);
      for (int row = 0; row < n; ++row) {
        const bool negative =
            std::popcount(static_cast<unsigned>(row & column & (block - 1))) % 2 != 0;
        const float want = row / block != column / block
                               ? 0.0F
                               : (negative ? -1.0F : 1.0F) / std::sqrt(static_cast<float>(block));
        EXPECT_EQ(x[static_cast<size_t>(row)], want) << n << " " << row << " " << column;
      }
    }
  }
}

TEST(RotateHead, KeepsScalarProducts) {
  const uint64_t seed = fresh_seed();
  std::cout << "seed " << seed << "\n";
  test::Rng rng(seed);
  for (const int n : {64, 96, 128, 256}) {
    auto q = test::normal_floats(rng, n);
    auto k = test::normal_floats(rng, n);
    const auto before = k;
    double exact = 0;
    for (int i = 0; i < n; ++i) exact += static_cast<double>(q[i]) * k[i];
    rotate_head(q.data(), n);
    rotate_head(k.data(), n);
    double rotated = 0;
    for (int i = 0; i < n; ++i) rotated += static_cast<double>(q[i]) * k[i];
    EXPECT_NEAR(rotated, exact, 1e-4 * n);
    rotate_head(k.data(), n);
    for (int i = 0; i < n; ++i) EXPECT_NEAR(k[i], before[i], 1e-5);
  }
}

TEST(StoreHead, RoundsToTheNearestLevel) {
  const uint64_t seed = fresh_seed();
  std::cout << "seed " << seed << "\n";
  test::Rng rng(seed);
  const struct {
    DType type;
    float of_largest;  ///< a level's width relative to the largest magnitude
  } kCases[] = {{DType::kQ8_0, 1 / 127.0F}, {DType::kQ4_0, 1 / 8.0F}};
  for (const auto& [type, width] : kCases) {
    for (int round = 0; round < 200; ++round) {
      const auto x = test::normal_floats(rng, 32, std::exp2(static_cast<float>(round % 20 - 10)));
      std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(type, 32)));
      store_head(type, x.data(), 32, bytes.data());
      std::vector<float> back(32);
      quant::decode(type, bytes.data(), back.data(), 32);
      float most = x[0];
      for (const float v : x) most = std::fabs(v) > std::fabs(most) ? v : most;
      for (int i = 0; i < 32; ++i) {
        // q4_0 has one level fewer on the side opposite to the largest element.
        const bool short_side = type == DType::kQ4_0 && x[i] * most < 0;
        const float allowed = std::fabs(most) * width * (short_side ? 1.0F : 0.5F);
        EXPECT_NEAR(back[i], x[i], allowed * 1.002F) << dtype_name(type);
      }
    }
  }
}

/// A head with one channel far above the others, as in real keys: rounding after rotation has a
/// smaller error.
TEST(StoreHead, OutliersRoundBetterWhenRotated) {
  const uint64_t seed = fresh_seed();
  std::cout << "seed " << seed << "\n";
  test::Rng rng(seed);
  auto error_of = [](std::vector<float> x, bool rotate) {
    const auto before = x;
    if (rotate) rotate_head(x.data(), 128);
    std::vector<uint8_t> bytes(static_cast<size_t>(row_bytes(DType::kQ4_0, 128)));
    store_head(DType::kQ4_0, x.data(), 128, bytes.data());
    quant::decode(DType::kQ4_0, bytes.data(), x.data(), 128);
    if (rotate) rotate_head(x.data(), 128);
    double sum = 0;
    for (int i = 0; i < 128; ++i) sum += (x[i] - before[i]) * (x[i] - before[i]);
    return sum;
  };
  double plain = 0;
  double rotated = 0;
  for (int round = 0; round < 100; ++round) {
    auto x = test::normal_floats(rng, 128);
    for (const int outlier : {5, 40, 77, 100}) x[outlier] += 30;
    plain += error_of(x, false);
    rotated += error_of(x, true);
  }
  EXPECT_LT(rotated, plain / 2);
}

}  // namespace
}  // namespace chimere::kernels::ref
