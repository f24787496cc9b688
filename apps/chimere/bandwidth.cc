#include "bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/stopwatch.h"

namespace chimere::app {
namespace {

constexpr int64_t kWords = int64_t{32} << 20;  // 256 MiB
constexpr int64_t kGrain = int64_t{128} << 10;
constexpr int kPasses = 5;

template <typename Pass>
double best_seconds(const Pass& pass) {
  double best = 1e9;
  for (int i = 0; i < kPasses; ++i) {
    const Stopwatch watch;
    pass();
    best = std::min(best, watch.seconds());
  }
  return best;
}

}  // namespace

Bandwidth measure_bandwidth(ThreadPool& pool) {
  std::vector<uint64_t> from(kWords, 1);
  std::vector<uint64_t> to(kWords, 0);
  constexpr double kGigabytes = kWords * sizeof(uint64_t) * 1e-9;
  const double copy = best_seconds([&] {
    pool.parallel_for(kWords, kGrain, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to.data() + begin, from.data() + begin,
                  static_cast<size_t>(end - begin) * sizeof(uint64_t));
    });
  });
  std::atomic<uint64_t> total = 0;  // a result, so that the compiler keeps the reads
  const double read = best_seconds([&] {
    pool.parallel_for(kWords, kGrain, [&](int64_t begin, int64_t end, int) {
      std::array<uint64_t, 16> sums{};  // enough parallel sums to hide the latency of the adds
      for (int64_t i = begin; i < end; i += 16) {
        for (int64_t j = 0; j < 16; ++j)
          sums[static_cast<size_t>(j)] += from[static_cast<size_t>(i + j)];
      }
      uint64_t sum = 0;
      for (const uint64_t s : sums) sum += s;
      total.fetch_add(sum, std::memory_order_relaxed);
    });
  });
  return {.read = kGigabytes / read, .copy = 2 * kGigabytes / copy};
}

Result<Bandwidth> measure_bandwidth(kernels::cuda::Device& gpu) {
  constexpr size_t kBytes = size_t{128} << 20;
  constexpr int kCopies = 16;  // per pass, to amortise the launch
  CHIMERE_TRY(const auto range, gpu.reserve(2 * kBytes));
  CHIMERE_CHECK_OK(range->commit(2 * kBytes));
  Status status;
  const double seconds = best_seconds([&] {
    for (int i = 0; i < kCopies; ++i) {
      gpu.stream().copy(range->data() + kBytes, range->data(), kBytes);
    }
    const Status done = gpu.stream().synchronize();
    if (!done.ok()) status = done;
  });
  CHIMERE_CHECK_OK(status);
  return Bandwidth{.read = 0, .copy = 2e-9 * kCopies * kBytes / seconds};
}

}  // namespace chimere::app
