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

template <int kLanes>
[[gnu::always_inline]] inline void scan_superblock(const float* logits, size_t rows, Blocks& out) {
  using Floats = typename Vector<kLanes>::Floats;
  using Ints = typename Vector<kLanes>::Ints;
  for (size_t first = 0; first < kInterleave; first += kLanes) {
    Floats most = Floats{} - kInfinity;
    Ints masked{};
    Ints good = ~Ints{};
    for (size_t row = 0; row < rows; ++row) {
      Floats x;
      std::memcpy(&x, logits + row * kInterleave + first, sizeof(x));
      most = most < x ? x : most;
      masked -= x == -kInfinity;
      good &= x < kInfinity;
    }
    std::memcpy(out.most.data() + first, &most, sizeof(most));
    for (int lane = 0; lane < kLanes; ++lane) {
      out.masked += masked[lane];
      out.good &= good[lane] != 0;
    }
  }
}

template <int kLanes>
[[gnu::always_inline]] inline void scan_blocks(std::span<const float> logits, LogitScan& out) {
  out.largest = {-kInfinity, -1};
  out.masked = 0;
  out.maxima.resize((logits.size() + kSuperBlock - 1) / kSuperBlock * kInterleave);
  std::array<float, kSuperBlock> padded;
  for (size_t first = 0; first < logits.size(); first += kSuperBlock) {
    const float* superblock = logits.data() + first;
    const size_t n = std::min(kSuperBlock, logits.size() - first);
    if (n < kSuperBlock) {
      std::fill(std::copy_n(superblock, n, padded.begin()), padded.end(), -kInfinity);
      superblock = padded.data();
      out.masked -= static_cast<int64_t>(kSuperBlock - n);
    }
    Blocks blocks;
    scan_superblock<kLanes>(superblock, LogitScan::kBlock, blocks);
    out.masked += blocks.masked;
    if (!blocks.good) {
      out.largest = {kInfinity, -1};
      return;
    }
    const auto at = static_cast<std::ptrdiff_t>(first / LogitScan::kBlock);
    std::ranges::copy(blocks.most, out.maxima.begin() + at);
    const float most = std::ranges::max(blocks.most);
    if (!(most > out.largest.value)) continue;
    const auto id =
        first + static_cast<size_t>(std::find(superblock, superblock + n, most) - superblock);
    out.largest = {most, static_cast<int32_t>(id)};
  }
}

// Variants by instruction set, selected at run time; all give the same bits.
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 void scan_logits_avx512(std::span<const float> l, LogitScan& s) {
  scan_blocks<16>(l, s);
}
CHIMERE_FOR_AVX2 void scan_logits_avx2(std::span<const float> l, LogitScan& s) {
  scan_blocks<8>(l, s);
}
#endif

}  // namespace

void scan_logits(std::span<const float> logits, LogitScan& out) {
#if defined(__x86_64__)
  static const auto kBest = has_avx512() ? scan_logits_avx512
                            : has_avx2() ? scan_logits_avx2
                                         : nullptr;
  if (kBest != nullptr) return kBest(logits, out);
#endif
  scan_blocks<4>(logits, out);
}

void select_largest(std::span<const float> logits, LogitScan& of, int64_t k,
                    std::vector<Candidate>& kept) {
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
    const size_t first = LogitScan::first(block);
    const size_t end = std::min(logits.size(), first + kSuperBlock - first % kInterleave);
    for (size_t i = first; i < end; i += kInterleave) {
      if (!(logits[i] >= threshold)) continue;
      kept.push_back({logits[i], static_cast<int32_t>(i)});
      if (kept.size() < capacity) continue;
      keep_best();
      threshold = kept.back().value;
    }
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
