#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace chimere {
namespace {

/// If all other threads of this process sleep: of each its id and how often it has gone to sleep.
/// Else nothing.
std::vector<std::string> sleeping_threads() {
  std::vector<std::string> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string id = task.path().filename().string();
    if (id == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:") && line.find("S (") == std::string::npos) return {};
      if (line.starts_with("voluntary_ctxt_switches:")) out.push_back(id + " " + line);
    }
  }
  std::ranges::sort(out);
  return out;
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

TEST_P(ThreadPoolOfSize, LoopsOfSeveralThreadsTakeTurns) {
  ThreadPool pool(GetParam());
  constexpr int kCallers = 4;
  constexpr int kRounds = 500;
  std::vector<std::vector<int64_t>> sums(kCallers, std::vector<int64_t>(64, 0));  // not atomic
  std::vector<std::thread> callers;
  for (std::vector<int64_t>& sum : sums) {
    callers.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        pool.parallel_for(64, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) sum[static_cast<size_t>(i)] += i;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<int64_t>& sum : sums) {
    for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(sum[static_cast<size_t>(i)], kRounds * i);
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
  std::set<int> seen;
  std::mutex mutex;
  while (static_cast<int>(seen.size()) < pool.size()) {  // a worker that never wakes is a hang
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than any spinning
    pool.parallel_for(2 * pool.size(), 1, [&](int64_t, int64_t, int worker) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      const std::scoped_lock lock(mutex);
      seen.insert(worker);
    });
  }
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
  // How soon the workers stop spinning depends on the machine. That they never do, or wake now and
  // then, is a hang.
  std::vector<std::string> before;
  std::vector<std::string> now = sleeping_threads();
  while (now.empty() || now != before) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before = std::exchange(now, sleeping_threads());
  }
}

TEST(ThreadPool, ANonPositiveSizeMeansOne) { EXPECT_EQ(ThreadPool(0).size(), 1); }

TEST(AvailableCpus, IsBetweenOneAndTheHardware) {
  EXPECT_GE(available_cpus(), 1);
  EXPECT_LE(available_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace chimere
