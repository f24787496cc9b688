#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool all_are_numbers(const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] < kInfinity)) return false;
  }
  return true;
}

}  // namespace

void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) {
  const auto words = static_cast<size_t>(mask_words(logits.cols));
  for (int64_t r = 0; r < logits.rows; ++r) {
    const float* x = logits.row(r);
    std::vector<bool> taken(static_cast<size_t>(logits.cols));
    const TokenMask mask =
        masks.empty() ? masks : masks.subspan(static_cast<size_t>(r) * words, words);
    const bool good = all_are_numbers(x, logits.cols);
    for (TopLogit& out : top.row(r)) {
      out = {-kInfinity, -1};
      if (!good) continue;
      for (int32_t i = 0; i < logits.cols; ++i) {
        const bool allowed = mask.empty() || contains(mask, i);
        if (allowed && !taken[static_cast<size_t>(i)] && x[i] > out.value) out = {x[i], i};
      }
      if (out.id >= 0) taken[static_cast<size_t>(out.id)] = true;
    }
    if (!good) top.row(r).front().value = kInfinity;
  }
}

}  // namespace chimere::kernels::ref
