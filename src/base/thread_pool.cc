#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chimere {
namespace {

/// How long a thread that waits keeps its CPU before it sleeps. The gaps between the loops of a
/// decode step are a few microseconds; waking a sleeper costs about 50.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 32;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Returns the first value of `a` that differs from `old` (acquire): spins, then sleeps.
template <typename T>
T wait_for_change(const std::atomic<T>& a, T old) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      const T v = a.load(std::memory_order_acquire);
      if (v != old) return v;
      pause_cpu();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  a.wait(old, std::memory_order_acquire);
  return a.load(std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int n) : n_threads(std::max(1, n)) {
    for (int w = 1; w < n_threads; ++w) {
      threads.emplace_back([this, w] { work(w); });
    }
  }

  ~Impl() {
    stop.store(true, std::memory_order_relaxed);
    region.fetch_add(1, std::memory_order_release);
    region.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void work(int worker) {
    uint32_t seen = 0;
    while (true) {
      seen = wait_for_change(region, seen);
      if (stop.load(std::memory_order_relaxed)) return;
      (*fn)(worker);
      // The last one wakes the caller, who may be asleep.
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  void run(const std::function<void(int)>& f) {
    if (n_threads > 1) {
      fn = &f;
      running.store(n_threads - 1, std::memory_order_relaxed);
      region.fetch_add(1, std::memory_order_release);
      region.notify_all();
    }
    f(0);
    if (n_threads > 1) {
      int left = running.load(std::memory_order_acquire);
      while (left != 0) left = wait_for_change(running, left);
    }
  }

  const int n_threads;
  std::vector<std::thread> threads;
  const std::function<void(int)>* fn = nullptr;  ///< of the current region; published by `region`
  std::atomic<bool> stop{false};
  // On cache lines of their own: each is written by one side while the other spins on it.
  alignas(64) std::atomic<uint32_t> region{0};  ///< number of the current region
  alignas(64) std::atomic<int> running{0};      ///< workers still inside it
  alignas(64) std::atomic<int64_t> next{0};     ///< first index of a loop that nobody has taken
};

ThreadPool::ThreadPool(int n_threads) : impl_(std::make_unique<Impl>(n_threads)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const { return impl_->n_threads; }

void ThreadPool::run(const std::function<void(int worker)>& fn) { impl_->run(fn); }

void ThreadPool::parallel_for(
    int64_t n, int64_t grain,
    const std::function<void(int64_t begin, int64_t end, int worker)>& fn) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (impl_->n_threads == 1 || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) fn(begin, std::min(n, begin + grain), 0);
    return;
  }
  impl_->next.store(0, std::memory_order_relaxed);
  // One captured reference fits into std::function without an allocation.
  struct Loop {
    std::atomic<int64_t>& next;
    int64_t n;
    int64_t grain;
    const std::function<void(int64_t, int64_t, int)>& fn;
  } const loop{impl_->next, n, grain, fn};
  impl_->run([&loop](int worker) {
    while (true) {
      const int64_t begin = loop.next.fetch_add(loop.grain, std::memory_order_relaxed);
      if (begin >= loop.n) return;
      loop.fn(begin, std::min(loop.n, begin + loop.grain), worker);
    }
  });
}

}  // namespace chimere
