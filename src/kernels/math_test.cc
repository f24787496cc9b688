#include "kernels/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/activation.h"
#include "kernels/rope.h"

namespace chimere::kernels {
namespace {

/// Error of f in units in the last place of the true value.
double ulps(float f, double truth) {
  const auto nearest = static_cast<float>(std::fabs(truth));
  const double ulp =
      static_cast<double>(std::nextafter(nearest, std::numeric_limits<float>::infinity())) -
      nearest;
  return std::fabs(f - truth) / ulp;
}

TEST(Math, ErrorsAreAFewUnitsInTheLastPlace) {
  for (double d = -104; d < 88.7; d += 0.00037) {
    const auto x = static_cast<float>(d);
    const double e = std::exp(static_cast<double>(x));
    ASSERT_LE(ulps(exp_f32(x), e), 1.1) << x;
    ASSERT_LE(ulps(softplus(x), std::log1p(e)), 3) << x;
    if (x < -87) continue;  // sigmoid is subnormal there, and 1 + e^-x overflows
    const double s = 1 / (1 + std::exp(-static_cast<double>(x)));
    ASSERT_LE(ulps(sigmoid(x), s), 3) << x;
    ASSERT_LE(ulps(silu(x), x * s), 3) << x;
  }
}

TEST(Math, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(0), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-inf), 0.0F);
  EXPECT_EQ(exp_f32(inf), inf);
  EXPECT_TRUE(std::isnan(exp_f32(NAN)));
  EXPECT_EQ(silu(-200.0F), 0.0F);
  EXPECT_EQ(silu(200.0F), 200.0F);
  EXPECT_EQ(sigmoid(-200.0F), 0.0F);
  EXPECT_EQ(sigmoid(200.0F), 1.0F);
  EXPECT_EQ(softplus(200.0F), 200.0F);
  EXPECT_EQ(softplus(-200.0F), 0.0F);
  EXPECT_TRUE(std::isnan(softplus(NAN)));
}

TEST(Activation, FollowsItsFormula) {
  for (double d = -30; d < 30; d += 0.00037) {
    const auto x = static_cast<float>(d);
    const double cubed = static_cast<double>(x) * x * x;
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * cubed);
    // sigmoid(2 u), because 1 + tanh(u) cancels below -1.
    const double gelu = x / (1 + std::exp(-2 * u));
    // The argument has six roundings, constants included; exp turns its absolute error into a
    // relative one. Where it overflows the result is 0.
    const double error = (6 * std::fabs(2 * u) + 8) * 0x1p-24;
    ASSERT_NEAR(activate(Activation::kGelu, x), gelu, std::fabs(gelu) * error + 0x1p-124) << x;
    const double positive = std::fmax(0.0, static_cast<double>(x));
    ASSERT_EQ(activate(Activation::kReluSquared, x), static_cast<float>(positive * positive)) << x;
    ASSERT_EQ(activate(Activation::kSilu, x), silu(x)) << x;
  }
  EXPECT_TRUE(std::isnan(activate(Activation::kReluSquared, NAN)));
  EXPECT_TRUE(std::isnan(activate(Activation::kClampedSwiglu, NAN, 1.0F)));
  EXPECT_TRUE(std::isnan(activate(Activation::kClampedSwiglu, 1.0F, NAN)));
  for (const float gate : {-200.0F, -9.0F, -1.0F, 0.0F, 0.5F, 6.9F, 7.0F, 8.0F, 1e30F}) {
    for (const float up : {-1e30F, -8.0F, -3.0F, 0.0F, 2.0F, 7.5F}) {
      const double g = std::min(double{gate}, 7.0);
      const double want = g / (1 + std::exp(-1.702 * g)) * (std::clamp(double{up}, -7.0, 7.0) + 1);
      EXPECT_NEAR(activate(Activation::kClampedSwiglu, gate, up), want,
                  1e-5 * std::fabs(want) + 1e-37);
    }
  }
  EXPECT_TRUE(std::isnan(activate(Activation::kGelu, NAN)));
}

TEST(RopeTable, AgreesWithTheCLibraryInDouble) {
  RopeTable table;
  const int dims = 64;
  const float base = 1e7F;
  const std::vector<int32_t> positions = {0, 1, 2, 77, 4095, 262143, 1000000};
  table.prepare(positions, dims, base);
  for (size_t r = 0; r < positions.size(); ++r) {
    const float* row = table.row(static_cast<int64_t>(r));
    for (int i = 0; i < dims / 2; ++i) {
      const double angle = positions[r] * std::pow(static_cast<double>(base), -2.0 * i / dims);
      // The angle's own rounding error (2^-53 of a million is 1e-10), then rounding to f32.
      EXPECT_NEAR(row[i], std::cos(angle), 6.1e-8) << positions[r] << " " << i;
      EXPECT_NEAR(row[dims / 2 + i], std::sin(angle), 6.1e-8) << positions[r] << " " << i;
    }
  }
}

TEST(RopeTable, FollowsChangesOfPositionsAndShape) {
  RopeTable table;
  table.prepare(std::vector<int32_t>{5, 6}, 8, 100.0F);
  table.prepare(std::vector<int32_t>{7}, 4, 100.0F);
  EXPECT_NEAR(table.row(0)[0], std::cos(7.0), 1e-7);
  EXPECT_NEAR(table.row(0)[3], std::sin(0.7), 1e-7);
  table.prepare(std::vector<int32_t>{7}, 4, 10000.0F);
  EXPECT_NEAR(table.row(0)[3], std::sin(0.07), 1e-7);
}

}  // namespace
}  // namespace chimere::kernels
