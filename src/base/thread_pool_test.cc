#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <numeric>
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

TEST_P(ThreadPoolOfSize, RunCallsEveryWorkerOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> calls(static_cast<size_t>(pool.size()),
                           0);  // not atomic: run() must synchronise
    pool.run([&](int worker) { ++calls[static_cast<size_t>(worker)]; });
    for (int c : calls) ASSERT_EQ(c, 1) << "round " << round;
  }
}

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

TEST_P(ThreadPoolOfSize, SleepersWakeUp) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than any spinning
    std::atomic<int> calls{0};
    pool.run([&](int) { ++calls; });
    EXPECT_EQ(calls, pool.size());
  }
}

TEST_P(ThreadPoolOfSize, CallerWaitsForSlowWorkers) {
  ThreadPool pool(GetParam());
  std::vector<int> done(static_cast<size_t>(pool.size()), 0);
  pool.run([&](int worker) {
    if (worker > 0) std::this_thread::sleep_for(std::chrono::milliseconds(3 * worker));
    done[static_cast<size_t>(worker)] = 1;
  });
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), pool.size());
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolOfSize, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, IdlePoolUsesNoCpuTime) {
  ThreadPool pool(4);
  pool.run([](int) {});
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
