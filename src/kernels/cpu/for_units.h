// Runs independent units of work on a thread pool, or on the caller when they are too small to
// share.
#ifndef CHIMERE_KERNELS_CPU_FOR_UNITS_H_
#define CHIMERE_KERNELS_CPU_FOR_UNITS_H_

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace chimere::kernels::cpu {

/// A parallel region costs about a microsecond while the workers are awake, so two threads gain
/// from this on.
inline constexpr int64_t kInlineNs = 4000;

/// f(unit, worker) for each unit in [0, n). `ns` is roughly how long one core takes for all of
/// them (measured with bench/vector_bench.cc); only whether threads are used depends on it.
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
