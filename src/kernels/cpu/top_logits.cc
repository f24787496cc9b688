#include "kernels/cpu/top_logits.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Logits whose maximum is kept, and such blocks that a thread takes at a time.
constexpr int64_t kBlock = 64;
constexpr int64_t kBlocksAtOnce = 256;

#if defined(__x86_64__)
#define CHIMERE_FOR_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
#define CHIMERE_FOR_AVX2 [[gnu::target("avx2")]]
#endif

bool before(const TopLogit& a, const TopLogit& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// Whole numbers in the order of the floats, which vectorise; what is no number comes before or
/// behind all others.
[[gnu::always_inline]] inline int32_t order_of(float x) {
  const auto bits = std::bit_cast<int32_t>(x);
  return bits ^ (bits >> 31 & INT32_MAX);
}

/// The largest logit of each whole block; false if one of them is +infinity or no number.
[[gnu::always_inline]] inline bool find_maxima(const float* x, int64_t blocks, float* maxima) {
  int32_t most_of_all = INT32_MIN;
  int32_t least_of_all = INT32_MAX;
  for (int64_t b = 0; b < blocks; ++b, x += kBlock) {
    int32_t most = INT32_MIN;
    int32_t least = INT32_MAX;
    for (int64_t i = 0; i < kBlock; ++i) {
      const int32_t at = order_of(x[i]);
      most = std::max(most, at);
      least = std::min(least, at);
    }
    maxima[b] = std::bit_cast<float>(most ^ (most >> 31 & INT32_MAX));
    most_of_all = std::max(most_of_all, most);
    least_of_all = std::min(least_of_all, least);
  }
  return most_of_all < order_of(kInfinity) && least_of_all >= order_of(-kInfinity);
}

using FindMaxima = bool (*)(const float* x, int64_t blocks, float* maxima);

bool maxima_anywhere(const float* x, int64_t blocks, float* maxima) {
  return find_maxima(x, blocks, maxima);
}
#if defined(__x86_64__)
CHIMERE_FOR_AVX512 bool maxima_avx512(const float* x, int64_t blocks, float* maxima) {
  return find_maxima(x, blocks, maxima);
}
CHIMERE_FOR_AVX2 bool maxima_avx2(const float* x, int64_t blocks, float* maxima) {
  return find_maxima(x, blocks, maxima);
}
#endif

FindMaxima for_this_processor() {
#if defined(__x86_64__)
  switch (best_cpu_isa()) {
    case CpuIsa::kAvx512:
      return maxima_avx512;
    case CpuIsa::kAvx2:
      return maxima_avx2;
    case CpuIsa::kGeneric:
      break;
  }
#endif
  return maxima_anywhere;
}

/// A row's blocks, the last of which may be cut short.
class BlockMaxima {
 public:
  explicit BlockMaxima(ConstMatrixView logits)
      : logits_(logits),
        per_row_((logits.cols + kBlock - 1) / kBlock),
        maxima_(static_cast<size_t>(logits.rows * per_row_)),
        good_(static_cast<size_t>(logits.rows)) {
    for (auto& good : good_) good = true;
  }

  int64_t units_of_row() const { return (per_row_ + kBlocksAtOnce - 1) / kBlocksAtOnce; }
  /// Some blocks of a row.
  void find(int64_t row, int64_t unit) {
    static const FindMaxima kFind = for_this_processor();
    const int64_t first = unit * kBlocksAtOnce;
    const int64_t end = std::min(first + kBlocksAtOnce, per_row_);
    const int64_t whole = std::min(end, logits_.cols / kBlock);
    const float* const x = logits_.row(row);
    float* const maxima = maxima_.data() + row * per_row_;
    bool good = kFind(x + first * kBlock, whole - first, maxima + first);
    if (whole < end) {
      std::vector<float> last(kBlock, -kInfinity);
      std::copy(x + whole * kBlock, x + logits_.cols, last.begin());
      good &= kFind(last.data(), 1, maxima + whole);
    }
    if (!good) good_[static_cast<size_t>(row)] = false;
  }

  bool good(int64_t row) const { return good_[static_cast<size_t>(row)]; }
  std::span<const float> of(int64_t row) const {
    return std::span(maxima_).subspan(static_cast<size_t>(row * per_row_),
                                      static_cast<size_t>(per_row_));
  }

 private:
  ConstMatrixView logits_;
  int64_t per_row_;
  std::vector<float> maxima_;
  std::vector<std::atomic<bool>> good_;
};

/// A number that `count` of the row's logits reach, if it has so many blocks.
float floor_of(std::span<const float> maxima, size_t count) {
  if (maxima.size() <= count) return -kInfinity;
  if (count == 1) return *std::ranges::max_element(maxima);
  std::vector<float> falling(maxima.begin(), maxima.end());
  const auto nth = falling.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(falling.begin(), nth, falling.end(), std::greater<>());
  return *nth;
}

void select(std::span<const float> logits, std::span<const float> maxima, std::span<TopLogit> top) {
  const float floor = floor_of(maxima, top.size());
  std::vector<TopLogit> found;
  for (size_t b = 0; b < maxima.size(); ++b) {
    if (!(maxima[b] >= floor)) continue;
    const size_t end = std::min(logits.size(), (b + 1) * kBlock);
    for (size_t i = b * kBlock; i < end; ++i) {
      if (logits[i] >= floor && logits[i] > -kInfinity) {
        found.push_back({logits[i], static_cast<int32_t>(i)});
      }
    }
  }
  const auto n = static_cast<std::ptrdiff_t>(std::min(top.size(), found.size()));
  std::partial_sort(found.begin(), found.begin() + n, found.end(), before);
  std::copy_n(found.begin(), n, top.begin());
}

}  // namespace

void top_logits(ThreadPool& pool, ConstMatrixView logits, TopLogits top) {
  BlockMaxima maxima(logits);
  const int64_t units = maxima.units_of_row();
  for_units(pool, logits.rows * units, logits.rows * logits.cols / 5,
            [&](int64_t unit, int /*worker*/) { maxima.find(unit / units, unit % units); });
  for_units(pool, logits.rows, logits.rows * logits.cols / 20, [&](int64_t r, int /*worker*/) {
    std::ranges::fill(top.row(r), TopLogit{-kInfinity, -1});
    if (maxima.good(r)) {
      select({logits.row(r), static_cast<size_t>(logits.cols)}, maxima.of(r), top.row(r));
    } else {
      top.row(r).front().value = kInfinity;
    }
  });
}

}  // namespace chimere::kernels::cpu
