#include "sampling/log_softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sampling/math.h"
#include "sampling/targets.h"

namespace chimere::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

/// Elements that loops over a vocabulary take at a time, and the sums that they keep
/// apart: an order of additions that is the same for every width of vectors.
constexpr size_t kPiece = 256;
constexpr size_t kWide = 16;

/// kPiece logits from `first` on: the last ones as masked behind the end, in `padded`.
[[gnu::always_inline]] inline const float* piece_at(std::span<const float> logits, size_t first,
                                                    std::array<float, kPiece>& padded) {
  const float* const piece = logits.data() + first;
  const size_t n = std::min(kPiece, logits.size() - first);
  if (n == kPiece) return piece;
  padded.fill(kMasked);
  std::copy_n(piece, n, padded.begin());
  return padded.data();
}

/// Sums of e^x and x e^x, x = logit - largest.
struct Sums {
  double e = 0;
  double xe = 0;
};

[[gnu::always_inline]] inline Sums sum_in_pieces(std::span<const float> logits, float largest) {
  std::array<double, kWide> sum{};
  std::array<double, kWide> weighted{};
  for (size_t first = 0; first < logits.size(); first += kPiece) {
    std::array<float, kPiece> padded;
    const float* const piece = piece_at(logits, first, padded);
    std::array<float, kWide> e_sum{};
    std::array<float, kWide> xe_sum{};
    for (size_t i = 0; i < kPiece; i += kWide) {
      for (size_t lane = 0; lane < kWide; ++lane) {
        const float below = piece[i + lane] - largest;
        const float x = below < -87.0F ? -87.0F : below;  // not -infinity times 0
        const float e = exp_nonpositive_f32(x);
        e_sum[lane] += e;
        xe_sum[lane] = std::fma(x, e, xe_sum[lane]);
      }
    }
    for (size_t lane = 0; lane < kWide; ++lane) {
      sum[lane] += static_cast<double>(e_sum[lane]);
      weighted[lane] += static_cast<double>(xe_sum[lane]);
    }
  }
  Sums out;
  for (size_t lane = 0; lane < kWide; ++lane) {
    out.e += sum[lane];
    out.xe += weighted[lane];
  }
  return out;
}

// The loops for what this processor has; the bits are the same.
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 Sums sum_avx512(std::span<const float> l, float m) {
  return sum_in_pieces(l, m);
}
CHIMERE_FOR_AVX2 Sums sum_avx2(std::span<const float> l, float m) { return sum_in_pieces(l, m); }
#endif

Sums sum_exponentials(std::span<const float> logits, float largest) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? sum_avx512 : has_avx2() ? sum_avx2 : nullptr;
  if (kBest != nullptr) return kBest(logits, largest);
#endif
  return sum_in_pieces(logits, largest);
}

}  // namespace

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

Distribution summarise_f32(std::span<const float> logits, float largest) {
  const Sums sums = sum_exponentials(logits, largest);
  const double log_total = log_positive(sums.e);
  return {static_cast<double>(largest) + log_total, std::max(0.0, log_total - sums.xe / sums.e),
          1.0 / sums.e};
}

std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k) {
  if (k <= 0) return {};
  Survey of;
  survey(logits, of);
  std::vector<Candidate> top = select_largest(logits, of, k);
  for (Candidate& c : top) c.value = static_cast<float>(c.value - distribution.log_sum);
  return top;
}

}  // namespace chimere::sampling
