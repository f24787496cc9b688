// Threads for requests that compile constraints, where slow compilations delay no quick ones.
#ifndef CHIMERE_SERVING_COMPILE_QUEUE_H_
#define CHIMERE_SERVING_COMPILE_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace chimere::serving {

/// Runs tasks in the order of their arrival on `quick` threads. A task that turns out to take long
/// calls yield(): another thread takes its place, and it goes on at a low priority as one of at
/// most `slow` such tasks.
class CompileQueue {
 public:
  CompileQueue(int quick, int slow, size_t max_waiting);
  ~CompileQueue();  ///< stop()
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;

  /// False if the queue is full, or after stop(). Any thread.
  bool push(std::function<void()> task);
  /// In a task, which waits until the slow tasks before it have ended. No effect for other threads,
  /// or called again.
  void yield();
  /// Drops queued tasks and waits for running ones.
  void stop();

 private:
  /// With so many threads, none takes the place of another one.
  static constexpr size_t kMostThreads = 64;

  void work();
  void start_thread();
  void end_slow_task();

  const size_t quick_;
  const uint64_t slow_;
  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  size_t quick_threads_ = 0;  ///< whose task has not called yield()
  uint64_t slow_begun_ = 0;   ///< tasks that have called yield()
  uint64_t slow_ended_ = 0;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_COMPILE_QUEUE_H_
