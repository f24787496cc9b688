// A small thread pool for work that would block the connections: parsing, templates, tokenisation,
// and the compilation of constraints, where slow tasks delay no quick ones.
#ifndef CHIMERE_SERVING_WORK_QUEUE_H_
#define CHIMERE_SERVING_WORK_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace chimere::serving {

/// Runs tasks in the order of their arrival on `threads` threads. With `slow_tasks`, a task that
/// turns out to take long calls yield(): another thread takes its place, and it continues at a low
/// priority as one of at most `slow_tasks` such tasks.
class WorkQueue {
 public:
  WorkQueue(int threads, size_t max_waiting, int slow_tasks = 0);
  ~WorkQueue();  ///< stop()
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// False if the queue is full, or after stop(). Any thread.
  bool push(std::function<void()> task);
  /// In a task, which waits until there are fewer than `slow_tasks` slow tasks before it. No effect
  /// without slow tasks, for threads of others, or called again.
  void yield();
  /// Drops queued tasks and waits for running ones.
  void stop();

 private:
  /// With so many threads, none takes the place of another one.
  static constexpr size_t kMostThreads = 64;

  void work();
  void start_thread();
  void end_slow_task();

  const size_t threads_wanted_;
  const uint64_t slow_tasks_;
  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable pushed_;      ///< or stopping
  std::condition_variable slow_ended_;  ///< or stopping
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  size_t quick_threads_ = 0;  ///< whose task has not called yield()
  uint64_t slow_begun_ = 0;   ///< tasks that have called yield()
  uint64_t slow_done_ = 0;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_WORK_QUEUE_H_
