#include "sampling/math.h"

#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"
#include "kernels/philox.h"

namespace chimere::sampling {
namespace {

// Known answers from the authors' Random123 distribution (kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(kernels::philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(kernels::philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(kernels::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysInsideTheOpenIntervalAndIsFlat) {
  const uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed);
  constexpr int kDraws = 100000;
  std::array<int, 16> bins{};
  for (int i = 0; i < kDraws; ++i) {
    const double u =
        kernels::uniform(seed, static_cast<uint64_t>(i) * 977, static_cast<uint32_t>(i % 31));
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<size_t>(u * 16)];
  }
  double chi2 = 0;
  for (const int b : bins) chi2 += (b - kDraws / 16.0) * (b - kDraws / 16.0) / (kDraws / 16.0);
  EXPECT_LT(chi2, 56);  // 15 degrees of freedom: 1 in a million
}

TEST(Math, ExpAndLogAgreeWithTheLibrary) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponents(-700, 0);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 ? exponents(random) : exponents(random) / 700;
    const double expected = std::exp(x);
    ASSERT_NEAR(exp_nonpositive(x) / expected, 1, 2e-15) << x;
    const double y = i % 3 ? expected : 1 / expected;
    ASSERT_NEAR(log_positive(y), std::log(y), 1e-15 * std::max(1.0, std::fabs(std::log(y)))) << y;
  }
  EXPECT_EQ(exp_nonpositive(0), 1);
  EXPECT_EQ(exp_nonpositive(-1e300), 0);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_EQ(log_positive(1), 0);
}

}  // namespace
}  // namespace chimere::sampling
