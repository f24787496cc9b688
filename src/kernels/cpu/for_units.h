// Runs independent units of work on a thread pool, or on the caller's thread if they are too small
// to share.
#ifndef CHIMERE_KERNELS_CPU_FOR_UNITS_H_
#define CHIMERE_KERNELS_CPU_FOR_UNITS_H_

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace chimere::kernels::cpu {

/// A parallel region costs about a microsecond while the workers are awake; two threads are faster
/// from this total on.
inline constexpr int64_t kInlineNs = 4000;

/// Calls f(unit, worker) for each unit in [0, n). `ns` is the approximate time of all units on one
/// core (measured with bench/vector_bench.cc); it only decides whether threads are used.
template <class F>
void for_units(ThreadPool& pool, int64_t n, int64_t ns, const F& f) {
  if (n <= 1 || pool.size() == 1 || ns < kInlineNs) {
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
