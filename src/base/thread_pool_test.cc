#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace chimere {
namespace {

double process_cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

class ThreadPoolOfSize : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolOfSize, ParallelForCoversEachIndexOnce) {
  ThreadPool pool(GetParam());
  for (int64_t n : {0, 1, 2, 3, 7, 64, 1000}) {
    for (int64_t grain : {0, 1, 3, 64, 5000}) {
      std::vector<int> hits(static_cast<size_t>(n), 0);
      pool.parallel_for(n, grain, [&](int64_t begin, int64_t end, int worker) {
        EXPECT_LE(end - begin, std::max<int64_t>(1, grain));
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, pool.size());
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      for (int h : hits) ASSERT_EQ(h, 1) << "n " << n << " grain " << grain;
    }
  }
}

TEST_P(ThreadPoolOfSize, ManyShortLoops) {
  ThreadPool pool(GetParam());
  std::vector<int64_t> sums(64, 0);  // not atomic: parallel_for must synchronise
  for (int round = 0; round < 5000; ++round) {
    pool.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(i)] += i;
    });
  }
  for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(sums[static_cast<size_t>(i)], 5000 * i);
}

TEST_P(ThreadPoolOfSize, SleepersWakeUp) {
  ThreadPool pool(GetParam());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::set<int> seen;
  std::mutex mutex;
  while (static_cast<int>(seen.size()) < pool.size() &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than any spinning
    pool.parallel_for(2 * pool.size(), 1, [&](int64_t, int64_t, int worker) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const std::scoped_lock lock(mutex);
      seen.insert(worker);
    });
  }
  EXPECT_EQ(static_cast<int>(seen.size()), pool.size());
}

TEST_P(ThreadPoolOfSize, CallerWaitsForSlowWorkers) {
  ThreadPool pool(GetParam());
  std::vector<int> done(static_cast<size_t>(pool.size()), 0);
  pool.parallel_for(pool.size(), 1, [&](int64_t begin, int64_t, int worker) {
    if (worker > 0) std::this_thread::sleep_for(std::chrono::milliseconds(3 * worker));
    done[static_cast<size_t>(begin)] = 1;
  });
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), pool.size());
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOfSize, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, IdlePoolUsesNoCpuTime) {
  ThreadPool pool(4);
  pool.parallel_for(64, 1, [](int64_t, int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_cpu_seconds() - before, 0.02);
}

TEST(ThreadPool, ANonPositiveSizeMeansOne) { EXPECT_EQ(ThreadPool(0).size(), 1); }

TEST(AvailableCpus, IsBetweenOneAndTheHardware) {
  EXPECT_GE(available_cpus(), 1);
  EXPECT_LE(available_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace chimere
