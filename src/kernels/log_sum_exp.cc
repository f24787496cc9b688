#include "kernels/log_sum_exp.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/exp_rule.h"

namespace chimere::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Tree sum into sum[0]: the upper half is added to the lower until one is left.
template <size_t kCount>
double tree(std::array<double, kCount>& sum) {
  for (size_t half = kCount / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum[0];
}

LogSumExp piece_log_sum_exp(std::span<const float> logits) {
  const float largest = *std::ranges::max_element(logits);
  if (largest == kMasked) return {0, 0, kMasked};
  std::array<float, kExpLanes> e{};
  std::array<float, kExpLanes> xe{};
  // A short last piece is padded with masked logits.
  for (size_t i = 0; i < kExpPiece; ++i) {
    const float x = below_largest(i < logits.size() ? logits[i] : kMasked, largest);
    const float power = exp_f32(x);
    e[i % kExpLanes] += power;
    xe[i % kExpLanes] = std::fma(x, power, xe[i % kExpLanes]);
  }
  std::array<double, kExpLanes> e_sum;
  std::array<double, kExpLanes> xe_sum;
  std::ranges::copy(e, e_sum.begin());
  std::ranges::copy(xe, xe_sum.begin());
  return {tree(e_sum), tree(xe_sum), largest};
}

}  // namespace

LogSumExp add_exp_pieces(std::span<const LogSumExp> pieces) {
  float largest = kMasked;
  for (const LogSumExp& p : pieces) largest = std::max(largest, p.largest);
  std::array<double, kExpLanesOfRow> e{};
  std::array<double, kExpLanesOfRow> xe{};
  for (size_t i = 0; i < pieces.size(); ++i) {
    const LogSumExp& p = pieces[i];
    if (p.largest == kMasked) continue;
    const float below = below_largest(p.largest, largest);
    const auto weight = static_cast<double>(exp_f32(below));
    e[i % kExpLanesOfRow] += weight * p.e;
    xe[i % kExpLanesOfRow] += weight * (p.xe + static_cast<double>(below) * p.e);
  }
  return {tree(e), tree(xe), largest};
}

LogSumExp row_log_sum_exp(const float* logits, int64_t n) {
  std::vector<LogSumExp> pieces;
  for (int64_t first = 0; first < n; first += kExpPiece) {
    const int64_t end = std::min<int64_t>(n, first + kExpPiece);
    pieces.push_back(piece_log_sum_exp({logits + first, logits + end}));
  }
  return add_exp_pieces(pieces);
}

}  // namespace chimere::kernels
