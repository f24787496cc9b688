// A small thread pool for work that would block the connections: parsing, templates, tokenisation.
#ifndef CHIMERE_SERVING_WORK_QUEUE_H_
#define CHIMERE_SERVING_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace chimere::serving {

class WorkQueue {
 public:
  WorkQueue(int threads, size_t max_waiting);
  ~WorkQueue();  ///< stop()
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// False if the queue is full, or after stop(). Any thread.
  bool push(std::function<void()> task);
  /// Drops queued tasks and waits for running ones.
  void stop();

 private:
  void work();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_WORK_QUEUE_H_
