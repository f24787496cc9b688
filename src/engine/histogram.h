// Counts durations and batch sizes in buckets of fixed bounds.
#ifndef CHIMERE_ENGINE_HISTOGRAM_H_
#define CHIMERE_ENGINE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace chimere::engine {

/// `kUpper`: inclusive upper bounds of the buckets, ascending; one more bucket has none.
template <const auto& kUpper>
struct BasicHistogram {
  std::array<uint64_t, kUpper.size() + 1> counts{};  ///< per bucket, not cumulative
  uint64_t count = 0;
  double sum = 0;  ///< of the values

  void add(double value) {
    const auto at = std::ranges::lower_bound(kUpper, value) - kUpper.begin();
    ++counts[static_cast<size_t>(at)];
    ++count;
    sum += value;
  }
};

inline constexpr std::array<double, 19> kSecondsBounds = {
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
    1,      2,     5,     10,    20,   60,   120,  300, 600};
inline constexpr std::array<double, 11> kBatchBounds = {1,  2,   4,   8,   16,  32,
                                                        64, 128, 256, 512, 1024};

/// Of durations in seconds.
using Histogram = BasicHistogram<kSecondsBounds>;
/// Of numbers of requests.
using BatchHistogram = BasicHistogram<kBatchBounds>;

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_HISTOGRAM_H_
