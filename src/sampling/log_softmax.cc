#include "sampling/log_softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/exp_rule.h"
#include "kernels/log_sum_exp.h"
#include "sampling/math.h"
#include "sampling/targets.h"

namespace chimere::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr size_t kPiece = kernels::kExpPiece;
constexpr size_t kLanes = kernels::kExpLanes;

/// Whether `set` contains the kPiece tokens from `first`.
bool contains_piece(kernels::TokenMask set, size_t first) {
  constexpr size_t kWords = kPiece / 32;
  if (set.size() < first / 32 + kWords) return false;
  uint32_t all = ~uint32_t{0};
  for (const uint32_t word : set.subspan(first / 32, kWords)) all &= word;
  return all == ~uint32_t{0};
}

/// The kPiece logits from `first`; a short last piece, and one with tokens outside of `set` (empty:
/// all tokens), is copied to `padded` with masked logits in their places.
[[gnu::always_inline]] inline const float* piece_at(std::span<const float> logits,
                                                    kernels::TokenMask set, size_t first,
                                                    std::array<float, kPiece>& padded) {
  const float* const piece = logits.data() + first;
  const size_t n = std::min(kPiece, logits.size() - first);
  const bool whole = set.empty() || contains_piece(set, first);
  if (n == kPiece && whole) return piece;
  padded.fill(kMasked);
  for (size_t i = 0; i < n; ++i) {
    if (whole || kernels::contains(set, static_cast<int32_t>(first + i))) padded[i] = piece[i];
  }
  return padded.data();
}

/// Pairwise sum of a piece's partial sums.
[[gnu::always_inline]] inline double tree(const std::array<float, kLanes>& lanes) {
  std::array<double, kLanes> sum;
  for (size_t i = 0; i < kLanes; ++i) sum[i] = static_cast<double>(lanes[i]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum[0];
}

/// Same bits as kernels::row_log_sum_exp(), in loops that vectorise.
[[gnu::always_inline]] inline kernels::LogSumExp sum_in_pieces(std::span<const float> logits,
                                                               kernels::TokenMask set) {
  thread_local std::vector<kernels::LogSumExp> pieces;  // keeps its memory
  pieces.clear();
  pieces.reserve((logits.size() + kPiece - 1) / kPiece);
  for (size_t first = 0; first < logits.size(); first += kPiece) {
    std::array<float, kPiece> padded;
    const float* const piece = piece_at(logits, set, first, padded);
    std::array<float, kLanes> maxima;
    maxima.fill(kMasked);
    for (size_t i = 0; i < kPiece; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        maxima[lane] = piece[i + lane] > maxima[lane] ? piece[i + lane] : maxima[lane];
      }
    }
    const float largest = *std::ranges::max_element(maxima);
    if (largest == kMasked) {
      pieces.push_back({0, 0, kMasked});
      continue;
    }
    std::array<float, kLanes> e_sum{};
    std::array<float, kLanes> xe_sum{};
    for (size_t i = 0; i < kPiece; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float x = kernels::below_largest(piece[i + lane], largest);
        const float e = kernels::exp_f32(x);
        e_sum[lane] += e;
        xe_sum[lane] = std::fma(x, e, xe_sum[lane]);
      }
    }
    pieces.push_back({tree(e_sum), tree(xe_sum), largest});
  }
  return kernels::add_exp_pieces(pieces);
}

// Variants by instruction set, selected at run time; all give the same bits.
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 kernels::LogSumExp sum_avx512(std::span<const float> l, kernels::TokenMask set) {
  return sum_in_pieces(l, set);
}
CHIMERE_FOR_AVX2 kernels::LogSumExp sum_avx2(std::span<const float> l, kernels::TokenMask set) {
  return sum_in_pieces(l, set);
}
#endif

}  // namespace

Distribution summarise(std::span<const float> logits, float largest, double scale) {
  // Eight interleaved partial sums: a fixed order that vectorises. Exponentials are computed per
  // block, ahead of the sums, to break the dependency chain.
  constexpr size_t kPartialSums = 8;
  constexpr size_t kBlock = 64;
  std::array<double, kPartialSums> sum{};
  std::array<double, kPartialSums> weighted{};  // sums of x e^x, for the entropy
  std::array<double, kBlock> x{};
  std::array<double, kBlock> e{};
  const double max = largest;
  for (size_t first = 0; first < logits.size(); first += kBlock) {
    const auto block = logits.subspan(first, std::min(kBlock, logits.size() - first));
    for (size_t i = 0; i < block.size(); ++i) {
      // Clamped, so that a masked token contributes 708 e^-708 instead of infinity times zero;
      // branch-free, so that it vectorises.
      x[i] = std::max(-708.0, (static_cast<double>(block[i]) - max) * scale);
      e[i] = exp_nonpositive(x[i]);
    }
    const size_t whole = block.size() / kPartialSums * kPartialSums;
    for (size_t i = 0; i < whole; i += kPartialSums) {
      for (size_t lane = 0; lane < kPartialSums; ++lane) {
        sum[lane] += e[i + lane];
        weighted[lane] += x[i + lane] * e[i + lane];
      }
    }
    for (size_t i = whole; i < block.size(); ++i) {
      sum[i - whole] += e[i];
      weighted[i - whole] += x[i] * e[i];
    }
  }
  for (size_t half = kPartialSums / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) {
      sum[lane] += sum[lane + half];
      weighted[lane] += weighted[lane + half];
    }
  }
  const double log_total = log_positive(sum[0]);
  // H = -sum p ln p = ln Z - (1/Z) sum x e^x, relative to the maximum.
  return {max * scale + log_total, std::max(0.0, log_total - weighted[0] / sum[0]), 1.0 / sum[0]};
}

kernels::LogSumExp log_sum_exp(std::span<const float> logits, kernels::TokenMask set) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? sum_avx512 : has_avx2() ? sum_avx2 : nullptr;
  if (kBest != nullptr) return kBest(logits, set);
#endif
  return sum_in_pieces(logits, set);
}

Distribution distribution_of(const kernels::LogSumExp& sums) {
  const double log_total = log_positive(sums.e);
  return {static_cast<double>(sums.largest) + log_total,
          std::max(0.0, log_total - sums.xe / sums.e), 1.0 / sums.e};
}

void to_logprobs(std::span<Candidate> logits, const Distribution& distribution) {
  for (Candidate& c : logits) c.value = static_cast<float>(c.value - distribution.log_sum);
}

std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k) {
  if (k <= 0) return {};
  LogitScan scan;
  scan_logits(logits, scan);
  std::vector<Candidate> top;
  select_largest(logits, scan, k, top);
  to_logprobs(top, distribution);
  return top;
}

}  // namespace chimere::sampling
