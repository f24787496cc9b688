// Counts durations in buckets of fixed bounds.
#ifndef CHIMERE_ENGINE_HISTOGRAM_H_
#define CHIMERE_ENGINE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace chimere::engine {

struct Histogram {
  /// Inclusive upper bounds in seconds; the last bucket has none.
  static constexpr std::array<double, 19> kBounds = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                     0.1,    0.2,   0.5,   1,     2,    5,    10,
                                                     20,     60,    120,   300,   600};

  std::array<uint64_t, kBounds.size() + 1> counts{};  ///< per bucket, not cumulative
  uint64_t count = 0;
  double sum = 0;  ///< seconds

  void add(double seconds) {
    const auto at = std::ranges::lower_bound(kBounds, seconds) - kBounds.begin();
    ++counts[static_cast<size_t>(at)];
    ++count;
    sum += seconds;
  }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_HISTOGRAM_H_
