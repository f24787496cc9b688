// A few threads for work that would hold up the connections: parsing, templates, tokens.
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

  /// False when too much waits, or after stop(). Any thread.
  bool push(std::function<void()> task);
  /// Drops what waits, and waits for what runs.
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
