#include "kernels/rope.h"

#include <algorithm>
#include <cmath>

#include "kernels/rope_angle.h"

namespace chimere::kernels {
namespace {

// Functions here are as accurate as those of kernels/rope_angle.h.

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// ln x = e ln 2 + 2 artanh((m - 1) / (m + 1)) with x = m 2^e, m in [sqrt(1/2), sqrt(2)).
double log_of(double x) {
  int e = 0;
  double m = std::frexp(x, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    --e;
  }
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = 27; k >= 1; k -= 2) sum = sum * (s * s) + 1.0 / k;
  return e * kLn2 + 2 * s * sum;
}

// e^x = 2^n e^r, |r| <= ln 2 / 2.
double exp_of(double x) {
  const double n = nearest_integer(x / kLn2);
  const double r = x - n * kLn2;
  double sum = 1;
  for (int k = 16; k >= 1; --k) sum = sum * (r / k) + 1.0;
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace

std::vector<double> rope_frequencies(int dims, float base) {
  std::vector<double> frequencies;
  for (int i = 0; i < dims / 2; ++i) {
    frequencies.push_back(exp_of(-2.0 * i / dims * log_of(base)));
  }
  return frequencies;
}

void RopeTable::prepare(std::span<const int32_t> positions, int dims, float base,
                        const float* factors) {
  const std::span divisors(factors, factors == nullptr ? 0 : static_cast<size_t>(dims) / 2);
  const bool same_angles = dims == dims_ && base == base_ && std::ranges::equal(divisors, factors_);
  if (same_angles && std::ranges::equal(positions, positions_)) return;
  if (!same_angles) {
    frequencies_ = rope_frequencies(dims, base);
    for (size_t i = 0; i < divisors.size(); ++i) frequencies_[i] /= divisors[i];
    factors_.assign(divisors.begin(), divisors.end());
    dims_ = dims;
    base_ = base;
  }
  positions_.assign(positions.begin(), positions.end());
  values_.resize(positions.size() * static_cast<size_t>(dims));
  float* out = values_.data();
  for (const int32_t position : positions) {
    for (const double frequency : frequencies_) {
      const CosSin v = cos_sin(position * frequency);
      out[0] = static_cast<float>(v.cos);
      out[dims / 2] = static_cast<float>(v.sin);
      ++out;
    }
    out += dims / 2;
  }
}

}  // namespace chimere::kernels
