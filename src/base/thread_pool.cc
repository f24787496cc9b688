#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace chimere {
namespace {

/// How long a waiting thread spins before it sleeps. Gaps between the loops of a decode step are a
/// few microseconds; waking a sleeping thread takes about 50.
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

/// Moves this thread to a CPU other than `cpu` if possible. The scheduler often puts a woken thread
/// on its waker's CPU and leaves it there, because threads that spin for less than a scheduler tick
/// do not look like contention.
void leave_cpu(int cpu) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (sched_setaffinity(0, sizeof(others), &others) == 0) sched_setaffinity(0, sizeof(all), &all);
}

}  // namespace

/// A region is announced by its number, entered through a gate, and closed by the caller when no
/// work is left. A worker that has not arrived by then (asleep, or its CPU taken by another
/// process) finds the gate closed, and the caller does not wait for it.
struct ThreadPool::Impl {
  /// Added to the gate while it is closed; more than any number of workers.
  static constexpr int kClosed = -(1 << 30);

  explicit Impl(int n) : n_threads(std::max(1, n)), cpu_per_thread(n_threads <= available_cpus()) {
    for (int w = 1; w < n_threads; ++w) {
      threads.emplace_back([this, w] { work(w); });
    }
  }

  ~Impl() {
    stop.store(true, std::memory_order_relaxed);
    announced.fetch_add(1, std::memory_order_release);
    announced.notify_all();
    for (std::thread& t : threads) t.join();
  }

  void work(int worker) {
    uint32_t seen = 0;
    uint32_t done = 0;
    while (true) {
      seen = wait_for_change(announced, seen);
      if (stop.load(std::memory_order_relaxed)) return;
      if (seen == done) continue;  // entered before this announcement, for an earlier region
      const int cpu = caller_cpu.load(std::memory_order_relaxed);
      if (cpu_per_thread && cpu >= 0 && cpu == sched_getcpu()) leave_cpu(cpu);
      if (gate.fetch_add(1, std::memory_order_acq_rel) >= 0) {
        done = region;
        (*fn)(worker);
      }
      if (gate.fetch_sub(1, std::memory_order_acq_rel) - 1 == kClosed) gate.notify_one();
    }
  }

  /// Returns when f(0) and all workers that entered in time have finished. A lost wake-up (the
  /// number is stored before notify_all looks for sleepers, but the two may be reordered) only
  /// costs a helper.
  void run(const std::function<void(int)>& f) {
    fn = &f;
    caller_cpu.store(sched_getcpu(), std::memory_order_relaxed);
    ++region;
    gate.fetch_sub(kClosed, std::memory_order_release);
    announced.store(region, std::memory_order_release);
    announced.notify_all();
    f(0);
    int inside = gate.fetch_add(kClosed, std::memory_order_acq_rel) + kClosed;
    while (inside != kClosed) inside = wait_for_change(gate, inside);
  }

  const int n_threads;
  const bool cpu_per_thread;  ///< there is a CPU for every thread
  std::vector<std::thread> threads;
  /// Waits until the regions of earlier callers have ended. Returns the number of this turn.
  uint32_t begin_turn() {
    const uint32_t turn = tickets.fetch_add(1);
    for (uint32_t now = serving.load(); now != turn;) now = wait_for_change(serving, now);
    return turn;
  }
  void end_turn(uint32_t turn) {
    serving.store(turn + 1);
    // Sequentially consistent: a caller whose ticket is not seen here sees the new turn.
    if (tickets.load() != turn + 1) serving.notify_all();
  }

  // Of the current region; published by opening the gate.
  const std::function<void(int)>* fn = nullptr;
  uint32_t region = 0;
  std::atomic<bool> stop{false};
  std::atomic<int> caller_cpu{-1};
  // On separate cache lines: each is written by one side while the other spins on it.
  alignas(64) std::atomic<uint32_t> announced{0};  ///< number of the latest region
  alignas(64) std::atomic<int> gate{kClosed};      ///< workers inside (+ kClosed)
  alignas(64) std::atomic<uint32_t> tickets{0};    ///< turns that callers have taken
  std::atomic<uint32_t> serving{0};                ///< the turn whose region may run
  /// First index of a worker's share of a loop that is not yet taken.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
  };
  const std::unique_ptr<Share[]> shares = std::make_unique<Share[]>(static_cast<size_t>(n_threads));
};

ThreadPool::ThreadPool(int n_threads) : impl_(std::make_unique<Impl>(n_threads)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const { return impl_->n_threads; }

void ThreadPool::parallel_for(
    int64_t n, int64_t grain,
    const std::function<void(int64_t begin, int64_t end, int worker)>& fn) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (impl_->n_threads == 1 || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) fn(begin, std::min(n, begin + grain), 0);
    return;
  }
  // Worker w starts with the w-th share, so that it reads memory in the order that the prefetcher
  // expects, then helps with the following shares.
  struct Loop {
    Impl::Share* shares;
    int64_t n_shares;
    int64_t n;
    int64_t grain;
    const std::function<void(int64_t, int64_t, int)>& fn;

    int64_t share_begin(int64_t share) const {
      const int64_t grains = (n + grain - 1) / grain;
      return std::min(n, grains * share / n_shares * grain);
    }
    void work(int worker) const {
      for (int64_t i = 0; i < n_shares; ++i) {
        const int64_t share = (worker + i) % n_shares;
        const int64_t share_end = share_begin(share + 1);
        while (true) {
          const int64_t begin = shares[share].next.fetch_add(grain, std::memory_order_relaxed);
          if (begin >= share_end) break;
          fn(begin, std::min(share_end, begin + grain), worker);
        }
      }
    }
  } const loop{impl_->shares.get(), impl_->n_threads, n, grain, fn};
  const uint32_t turn = impl_->begin_turn();
  for (int64_t share = 0; share < loop.n_shares; ++share) {
    loop.shares[share].next.store(loop.share_begin(share), std::memory_order_relaxed);
  }
  // A single captured reference fits into std::function without an allocation.
  impl_->run([&loop](int worker) { loop.work(worker); });
  impl_->end_turn(turn);
}

}  // namespace chimere
