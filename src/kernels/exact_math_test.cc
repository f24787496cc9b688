#include "kernels/exact_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/fresh_seed.h"

namespace chimere::kernels {
namespace {

/// log_positive() with the exponent extracted by the C library.
double log_by_frexp(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  for (int k = 21; k >= 3; k -= 2) p = p * z + 1.0 / k;
  const double log_m = 2.0 * s + 2.0 * s * (z * p);
  return exponent * kLn2High + (exponent * kLn2Low + log_m);
}

void expect_same_log(double x) {
  ASSERT_EQ(std::bit_cast<uint64_t>(log_positive(x)), std::bit_cast<uint64_t>(log_by_frexp(x)))
      << std::hexfloat << x;
}

TEST(ExactMath, LogarithmsTakeTheExponentOutAsTheCLibraryDoes) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  using Limits = std::numeric_limits<double>;
  for (int exponent = Limits::min_exponent; exponent <= Limits::max_exponent; ++exponent) {
    const double power = std::ldexp(0.5, exponent);
    // Around the mantissa that is doubled, and at both ends of a binade.
    for (const double m : {1.0, 2 * 0.70710678118654752, 1.5, 2 - Limits::epsilon()}) {
      expect_same_log(m * power);
      expect_same_log(std::nextafter(m, 1.0) * power);
      if (m < 1.75) expect_same_log(std::nextafter(m, 2.0) * power);
    }
    for (int i = 0; i < 100; ++i) {
      expect_same_log((1 + static_cast<double>(random() >> 12) * 0x1p-52) * power);
    }
  }
  // The arguments of Gumbel-max draws: uniform numbers, and their logarithms.
  for (const double u : {0x1p-53, 3 * 0x1p-53, 0.5, 1 - 0x1p-53, 1 - 3 * 0x1p-53}) {
    expect_same_log(u);
    expect_same_log(-log_positive(u));
  }
  for (int i = 0; i < 1000000; ++i) {
    const double u = (static_cast<double>(random() >> 12) + 0.5) * 0x1p-52;
    expect_same_log(u);
    expect_same_log(-log_positive(u));
  }
}

}  // namespace
}  // namespace chimere::kernels
