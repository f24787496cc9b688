#include "sampling/logit_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>

#include "sampling/targets.h"

namespace chimere::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kInterleave = LogitScan::kInterleave;
constexpr size_t kSuperBlock = kInterleave * LogitScan::kBlock;

/// The maxima of kInterleave adjacent blocks.
struct Blocks {
  std::array<float, kInterleave> most;
  int64_t masked = 0;
  bool good = true;  ///< all are finite or masked
};

/// Explicit compiler vectors of kLanes neighbouring blocks, because the loop is not vectorised
/// automatically.
template <int kLanes>
struct Vector {
  using Floats [[gnu::vector_size(4 * kLanes)]] = float;
  using Ints [[gnu::vector_size(4 * kLanes)]] = int32_t;
};

/// `words`: the tokens of the superblock that are looked at; nullptr: all.
template <int kLanes>
[[gnu::always_inline]] inline void scan_superblock(const float* logits, const uint32_t* words,
                                                   Blocks& out) {
  using Floats = typename Vector<kLanes>::Floats;
  using Ints = typename Vector<kLanes>::Ints;
  static_assert(kInterleave == 16);
  for (size_t first = 0; first < kInterleave; first += kLanes) {
    Ints bit_of_lane;
    for (int lane = 0; lane < kLanes; ++lane) bit_of_lane[lane] = 1 << (first + lane);
    Floats most = Floats{} - kInfinity;
    Ints masked{};
    Ints good = ~Ints{};
    for (size_t row = 0; row < LogitScan::kBlock; ++row) {
      Floats x;
      std::memcpy(&x, logits + row * kInterleave + first, sizeof(x));
      good &= x < kInfinity;
      if (words != nullptr) {
        const auto bits = static_cast<int32_t>(words[row / 2] >> (16 * (row % 2)) & 0xffff);
        x = ((Ints{} + bits) & bit_of_lane) != 0 ? x : Floats{} - kInfinity;
      }
      most = most < x ? x : most;
      masked -= x == -kInfinity;
    }
    std::memcpy(out.most.data() + first, &most, sizeof(most));
    for (int lane = 0; lane < kLanes; ++lane) {
      out.masked += masked[lane];
      out.good &= good[lane] != 0;
    }
  }
}

/// The words of a superblock's tokens, with zeros behind the end of the set. nullptr: all tokens.
[[gnu::always_inline]] inline const uint32_t* words_of_superblock(
    kernels::TokenMask set, size_t superblock, std::array<uint32_t, kSuperBlock / 32>& padded) {
  const size_t first = std::min(set.size(), superblock * padded.size());
  const size_t n = std::min(padded.size(), set.size() - first);
  const uint32_t* words = set.data() + first;
  if (n < padded.size()) {
    std::fill(std::copy_n(words, n, padded.begin()), padded.end(), 0);
    words = padded.data();
  }
  uint32_t all = ~uint32_t{0};
  for (size_t i = 0; i < padded.size(); ++i) all &= words[i];
  return all == ~uint32_t{0} ? nullptr : words;
}

template <int kLanes>
[[gnu::always_inline]] inline void scan_blocks(std::span<const float> logits,
                                               kernels::TokenMask set, bool restricted,
                                               LogitScan& out) {
  out.largest = {-kInfinity, -1};
  out.masked = 0;
  out.maxima.resize((logits.size() + kSuperBlock - 1) / kSuperBlock * kInterleave);
  std::array<float, kSuperBlock> padded;
  std::array<uint32_t, kSuperBlock / 32> padded_words;
  for (size_t first = 0; first < logits.size(); first += kSuperBlock) {
    const float* superblock = logits.data() + first;
    const size_t n = std::min(kSuperBlock, logits.size() - first);
    if (n < kSuperBlock) {
      std::fill(std::copy_n(superblock, n, padded.begin()), padded.end(), -kInfinity);
      superblock = padded.data();
      out.masked -= static_cast<int64_t>(kSuperBlock - n);
    }
    const uint32_t* words =
        restricted ? words_of_superblock(set, first / kSuperBlock, padded_words) : nullptr;
    Blocks blocks;
    if (words == nullptr) {
      scan_superblock<kLanes>(superblock, nullptr, blocks);
    } else {
      scan_superblock<kLanes>(superblock, words, blocks);
    }
    out.masked += blocks.masked;
    if (!blocks.good) {
      out.largest = {kInfinity, -1};
      return;
    }
    const auto at = static_cast<std::ptrdiff_t>(first / LogitScan::kBlock);
    std::ranges::copy(blocks.most, out.maxima.begin() + at);
    const float most = std::ranges::max(blocks.most);
    if (!(most > out.largest.value)) continue;
    const auto contained = [words](size_t i) {
      return words == nullptr || (words[i / 32] >> (i % 32) & 1) != 0;
    };
    size_t at_most = 0;
    while (superblock[at_most] != most || !contained(at_most)) ++at_most;
    out.largest = {most, static_cast<int32_t>(first + at_most)};
  }
}

// Variants by instruction set, selected at run time; all give the same bits.
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 void scan_logits_avx512(std::span<const float> l, kernels::TokenMask set,
                                           bool restricted, LogitScan& s) {
  scan_blocks<16>(l, set, restricted, s);
}
CHIMERE_FOR_AVX2 void scan_logits_avx2(std::span<const float> l, kernels::TokenMask set,
                                       bool restricted, LogitScan& s) {
  scan_blocks<8>(l, set, restricted, s);
}
#endif

void scan(std::span<const float> logits, kernels::TokenMask set, bool restricted, LogitScan& out) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? scan_logits_avx512
                            : has_avx2() ? scan_logits_avx2
                                         : nullptr;
  if (kBest != nullptr) return kBest(logits, set, restricted, out);
#endif
  scan_blocks<4>(logits, set, restricted, out);
}

}  // namespace

void scan_logits(std::span<const float> logits, LogitScan& out) { scan(logits, {}, false, out); }

void scan_logits(std::span<const float> logits, kernels::TokenMask set, LogitScan& out) {
  scan(logits, set, true, out);
}

void select_largest(std::span<const float> logits, LogitScan& of, int64_t k,
                    std::vector<Candidate>& kept, kernels::TokenMask set) {
  kept.clear();
  k = std::min(k, static_cast<int64_t>(logits.size()) - of.masked);
  if (k <= 0) return;
  const auto nth = static_cast<std::ptrdiff_t>(k) - 1;
  // At least k blocks have a logit not below the threshold.
  float threshold = std::numeric_limits<float>::lowest();
  if (nth < static_cast<std::ptrdiff_t>(of.maxima.size())) {
    std::vector<float>& maxima = of.scratch;
    maxima.assign(of.maxima.begin(), of.maxima.end());
    std::nth_element(maxima.begin(), maxima.begin() + nth, maxima.end(), std::greater<>());
    threshold = std::max(threshold, maxima[static_cast<size_t>(nth)]);
  }
  // Collects the logits that reach the threshold; at 2k of them the lower half is dropped and the
  // threshold raised, so that selection costs amortised O(1) per collected logit.
  const size_t capacity = static_cast<size_t>(k) * 2;
  kept.reserve(std::min(capacity, logits.size()));
  const auto keep_best = [&] {
    std::nth_element(kept.begin(), kept.begin() + nth, kept.end());
    kept.resize(static_cast<size_t>(k));
  };
  for (size_t block = 0; block < of.maxima.size(); ++block) {
    if (of.maxima[block] < threshold) continue;
    LogitScan::for_each(block, logits.size(), [&](size_t i) {
      if (!(logits[i] >= threshold)) return;
      if (!set.empty() && !kernels::contains(set, static_cast<int32_t>(i))) return;
      kept.push_back({logits[i], static_cast<int32_t>(i)});
      if (kept.size() < capacity) return;
      keep_best();
      threshold = kept.back().value;
    });
  }
  if (kept.size() > static_cast<size_t>(k)) keep_best();
  std::sort(kept.begin(), kept.end());
}

Result<Candidate> find_largest(const LogitScan& scan) {
  if (scan.largest.value == kInfinity) {
    return invalid_data(
        "The model produced logits that are not numbers; its file may be damaged (try another "
        "download).");
  }
  if (scan.largest.id < 0) {
    return invalid_data("No token is left to choose from: every logit is masked.");
  }
  return scan.largest;
}

Result<Candidate> find_largest(std::span<const float> logits) {
  LogitScan found;
  scan_logits(logits, found);
  return find_largest(found);
}

}  // namespace chimere::sampling
