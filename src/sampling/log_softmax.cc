#include "sampling/log_softmax.h"

#include <algorithm>
#include <array>
#include <limits>

#include "sampling/math.h"

namespace chimere::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

}  // namespace

std::vector<Candidate> select_largest(std::span<const float> logits, int64_t k) {
  std::vector<Candidate> kept;
  k = std::min<int64_t>(k, static_cast<int64_t>(logits.size()));
  if (k <= 0) return kept;
  // Collect up to 2k candidates above a rising threshold, then throw the worse half away: each
  // element is looked at once, and the selections cost O(1) per collected candidate.
  const size_t capacity = static_cast<size_t>(k) * 2;
  kept.reserve(std::min<size_t>(capacity, logits.size()));
  const auto nth = static_cast<std::ptrdiff_t>(k) - 1;
  float threshold = kMasked;
  for (size_t i = 0; i < logits.size(); ++i) {
    // Strict: ids rise, so a tie with the k-th best so far loses to it.
    if (!(logits[i] > threshold)) continue;
    kept.push_back({logits[i], static_cast<int32_t>(i)});
    if (kept.size() < capacity) continue;
    std::nth_element(kept.begin(), kept.begin() + nth, kept.end());
    kept.resize(static_cast<size_t>(k));
    threshold = kept.back().value;
  }
  if (kept.size() > static_cast<size_t>(k)) {
    std::nth_element(kept.begin(), kept.begin() + nth, kept.end());
    kept.resize(static_cast<size_t>(k));
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

Result<Candidate> find_largest(std::span<const float> logits) {
  Candidate best{kMasked, -1};
  bool ordered = true;
  for (size_t i = 0; i < logits.size(); ++i) {
    ordered &= logits[i] < std::numeric_limits<float>::infinity();  // false for NaN too
    if (logits[i] > best.value) best = {logits[i], static_cast<int32_t>(i)};
  }
  if (!ordered) {
    return invalid_data(
        "The model produced logits that are not numbers; its file may be damaged (try another "
        "download).");
  }
  if (best.id < 0) return invalid_data("No token is left to choose from: every logit is masked.");
  return best;
}

Distribution summarise(std::span<const float> logits, float largest, double scale) {
  // Eight interleaved partial sums: a fixed order that vectorises. Exponentials are computed a
  // block ahead of the sums, so that they do not wait for each other.
  constexpr size_t kLanes = 8;
  constexpr size_t kBlock = 64;
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> weighted{};  // of x e^x, for the entropy
  std::array<double, kBlock> x{};
  std::array<double, kBlock> e{};
  const double max = largest;
  for (size_t first = 0; first < logits.size(); first += kBlock) {
    const auto block = logits.subspan(first, std::min(kBlock, logits.size() - first));
    for (size_t i = 0; i < block.size(); ++i) {
      // Clamped, so that a masked token adds 708 e^-708 and not infinity times zero; no branch, so
      // that it vectorises.
      x[i] = std::max(-708.0, (static_cast<double>(block[i]) - max) * scale);
      e[i] = exp_nonpositive(x[i]);
    }
    const size_t whole = block.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        sum[lane] += e[i + lane];
        weighted[lane] += x[i + lane] * e[i + lane];
      }
    }
    for (size_t i = whole; i < block.size(); ++i) {
      sum[i - whole] += e[i];
      weighted[i - whole] += x[i] * e[i];
    }
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) {
      sum[lane] += sum[lane + half];
      weighted[lane] += weighted[lane + half];
    }
  }
  const double log_total = log_positive(sum[0]);
  // H = -sum p ln p = ln Z - (1/Z) sum x e^x, with everything relative to the maximum.
  return {max * scale + log_total, std::max(0.0, log_total - weighted[0] / sum[0]), 1.0 / sum[0]};
}

std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k) {
  std::vector<Candidate> top = select_largest(logits, k);
  for (Candidate& c : top) c.value = static_cast<float>(c.value - distribution.log_sum);
  return top;
}

}  // namespace chimere::sampling
