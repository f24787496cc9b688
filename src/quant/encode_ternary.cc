// TQ1_0 and TQ2_0: one scale for 256 elements of -1, 0 and 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "quant/encoders.h"
#include "quant/fit.h"
#include "quant/quant.h"

namespace chimere::quant {
namespace {

// The best scale. Whatever it is, the elements of magnitude above half of it are not 0, so that it
// suffices to compare the least-squares solutions for each number of largest elements: the error is
// sum w x^2 - (sum over these of w |x|)^2 / (sum over these of w).
float fit_ternary(const float* x, const float* w) {
  std::array<int, kSuperBlock> order;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return std::fabs(x[a]) > std::fabs(x[b]); });
  double sum = 0;
  double weight = 0;
  double best_gain = 0;
  double best = 0;
  for (const int i : order) {
    sum += double{w[i]} * std::fabs(double{x[i]});
    weight += double{w[i]};
    if (weight > 0 && sum * sum > best_gain * weight) {
      best_gain = sum * sum / weight;
      best = sum / weight;
    }
  }
  return storable(static_cast<float>(best));
}

// Digits 0, 1 and 2, and the scale's bits.
uint16_t ternary_digits(const float* x, const float* w, std::array<uint8_t, kSuperBlock>& t) {
  const float d = fit_ternary(x, w);
  const float id = inverse(d);
  for (size_t i = 0; i < t.size(); ++i) {
    t[i] = static_cast<uint8_t>(static_cast<int>(round_to(x[i] * id, -1, 1)) + 1);
  }
  return f32_to_f16(d);
}

// Digits `stride` apart, the first one most significant; four of them get a last digit of 0.
uint8_t pack_digits(const uint8_t* t, int stride, int count) {
  unsigned n = 0;
  for (int k = 0; k < 5; ++k) n = 3 * n + (k < count ? t[k * stride] : 0U);
  return static_cast<uint8_t>((256 * n + 242) / 243);
}

}  // namespace

void encode_block(const float* x, const float* w, BlockTq10& b) {
  std::array<uint8_t, kSuperBlock> t;
  b.d = ternary_digits(x, w, t);
  for (int m = 0; m < 32; ++m) b.qs[m] = pack_digits(t.data() + m, 32, 5);
  for (int m = 0; m < 16; ++m) b.qs[32 + m] = pack_digits(t.data() + 160 + m, 16, 5);
  for (int m = 0; m < 4; ++m) b.qh[m] = pack_digits(t.data() + 240 + m, 4, 4);
}

void encode_block(const float* x, const float* w, BlockTq20& b) {
  std::array<uint8_t, kSuperBlock> t;
  b.d = ternary_digits(x, w, t);
  std::memset(b.qs, 0, sizeof b.qs);
  for (int i = 0; i < kSuperBlock; ++i) {
    const unsigned digit = t[static_cast<size_t>(i)];
    b.qs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(digit << (i % 128 / 32 * 2));
  }
}

}  // namespace chimere::quant
