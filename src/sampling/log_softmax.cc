#include "sampling/log_softmax.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sampling/math.h"

namespace chimere::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

#if defined(__x86_64__)
#define CHIMERE_FOR_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]]
#define CHIMERE_FOR_AVX2 [[gnu::target("avx2,fma")]]
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}
#endif

/// Elements that loops over a vocabulary take at a time, and the sums or maxima that they keep
/// apart: an order of additions that is the same for every width of vectors.
constexpr size_t kPiece = 256;
constexpr size_t kWide = 16;

/// The largest of a piece; +infinity if one of them is that or no number. As whole numbers in the
/// order of the floats, which vectorise: numbers that are none come before or behind all others.
[[gnu::always_inline]] inline float largest_of(const float* logits) {
  constexpr auto kOrder = [](float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    return bits ^ (bits >> 31 & INT32_MAX);
  };
  int32_t most = INT32_MIN;
  int32_t least = INT32_MAX;
  for (size_t i = 0; i < kPiece; ++i) {
    const int32_t at = kOrder(logits[i]);
    most = std::max(most, at);
    least = std::min(least, at);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (most >= kOrder(kInfinity) || least < kOrder(-kInfinity)) return kInfinity;
  return std::bit_cast<float>(most ^ (most >> 31 & INT32_MAX));
}

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

/// {+infinity, -1} if a logit is that or no number; {-infinity, -1} if all are masked.
[[gnu::always_inline]] inline Candidate find_in_pieces(std::span<const float> logits) {
  Candidate best{kMasked, -1};
  for (size_t first = 0; first < logits.size(); first += kPiece) {
    std::array<float, kPiece> padded;
    const float* const piece = piece_at(logits, first, padded);
    const float most = largest_of(piece);
    if (most == std::numeric_limits<float>::infinity()) return {most, -1};
    if (!(most > best.value)) continue;
    best.value = most;
    best.id = static_cast<int32_t>(
        first + static_cast<size_t>(std::find(piece, piece + kPiece, most) - piece));
  }
  return best;
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
CHIMERE_FOR_AVX512 Candidate find_avx512(std::span<const float> l) { return find_in_pieces(l); }
CHIMERE_FOR_AVX2 Candidate find_avx2(std::span<const float> l) { return find_in_pieces(l); }
CHIMERE_FOR_AVX512 Sums sum_avx512(std::span<const float> l, float m) {
  return sum_in_pieces(l, m);
}
CHIMERE_FOR_AVX2 Sums sum_avx2(std::span<const float> l, float m) { return sum_in_pieces(l, m); }
#endif

Candidate scan_for_largest(std::span<const float> logits) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? find_avx512 : has_avx2() ? find_avx2 : nullptr;
  if (kBest != nullptr) return kBest(logits);
#endif
  return find_in_pieces(logits);
}

Sums sum_exponentials(std::span<const float> logits, float largest) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? sum_avx512 : has_avx2() ? sum_avx2 : nullptr;
  if (kBest != nullptr) return kBest(logits, largest);
#endif
  return sum_in_pieces(logits, largest);
}

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
  const Candidate best = scan_for_largest(logits);
  if (best.value == std::numeric_limits<float>::infinity()) {
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

Distribution summarise_f32(std::span<const float> logits, float largest) {
  const Sums sums = sum_exponentials(logits, largest);
  const double log_total = log_positive(sums.e);
  return {static_cast<double>(largest) + log_total, std::max(0.0, log_total - sums.xe / sums.e),
          1.0 / sums.e};
}

std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k) {
  std::vector<Candidate> top = select_largest(logits, k);
  for (Candidate& c : top) c.value = static_cast<float>(c.value - distribution.log_sum);
  return top;
}

}  // namespace chimere::sampling
