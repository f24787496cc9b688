// A fixed set of worker threads for data-parallel loops.
#ifndef CHIMERE_BASE_THREAD_POOL_H_
#define CHIMERE_BASE_THREAD_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>

namespace chimere {

/// Number of CPUs this process may use: the smaller of affinity mask and cgroup quota, at least 1.
int available_cpus();

/// The calling thread is worker 0, so a pool of size 1 has no threads of its own. Workers spin
/// briefly between calls (a decode step is a series of short loops), then sleep: an idle pool uses
/// no CPU time. Loops of several threads run one after another, in the order of the calls; a loop
/// must not start another one. Results must not depend on the number of threads.
class ThreadPool {
 public:
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Splits [0, n) into pieces of at most `grain` and calls fn(begin, end, worker) for each. A
  /// worker takes adjacent pieces in order, then helps slower workers. Does not wait for workers
  /// that have not taken a piece.
  void parallel_for(int64_t n, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end, int worker)>& fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_THREAD_POOL_H_
