// Runs independent units of work on a thread pool, or on the caller when they are too small to
// share.
#ifndef CHIMERE_KERNELS_CPU_FOR_UNITS_H_
#define CHIMERE_KERNELS_CPU_FOR_UNITS_H_

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace chimere::kernels::cpu {

/// A parallel region costs about a microsecond, in which one core touches some thousands of floats.
inline constexpr int64_t kInlineFloats = 16384;

/// f(unit, worker) for each unit in [0, n). `floats` is roughly how many floats all units touch.
template <class F>
void for_units(ThreadPool& pool, int64_t n, int64_t floats, const F& f) {
  if (n <= 1 || pool.size() == 1 || floats < kInlineFloats) {
    for (int64_t i = 0; i < n; ++i) f(i, 0);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, n / (4 * static_cast<int64_t>(pool.size())));
  pool.parallel_for(n, grain, [&f](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) f(i, worker);
  });
}

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_FOR_UNITS_H_
