#include "serving/work_queue.h"

#include <algorithm>
#include <utility>

#include "base/system.h"

namespace chimere::serving {
namespace {

/// The queue whose quick task this thread runs.
thread_local const WorkQueue* queue_of_quick_task = nullptr;

}  // namespace

WorkQueue::WorkQueue(int threads, size_t max_waiting, int slow_tasks)
    : threads_wanted_(static_cast<size_t>(threads)),
      slow_tasks_(static_cast<uint64_t>(slow_tasks)),
      max_waiting_(max_waiting) {
  const std::lock_guard lock(mutex_);
  while (quick_threads_ < threads_wanted_) start_thread();
}

WorkQueue::~WorkQueue() { stop(); }

bool WorkQueue::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push_back(std::move(task));
  }
  pushed_.notify_one();
  return true;
}

void WorkQueue::yield() {
  if (slow_tasks_ == 0 || queue_of_quick_task != this) return;
  queue_of_quick_task = nullptr;
  lower_thread_priority();
  std::unique_lock lock(mutex_);
  for (; !ended_.empty(); ended_.pop_front()) ended_.front().join();
  --quick_threads_;
  if (!stopping_ && threads_.size() < kMostThreads) start_thread();
  const uint64_t place = slow_begun_++;
  slow_ended_.wait(lock, [&] { return stopping_ || place < slow_done_ + slow_tasks_; });
}

void WorkQueue::stop() {
  std::list<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    threads.splice(threads.end(), threads_);
    threads.splice(threads.end(), ended_);
  }
  pushed_.notify_all();
  slow_ended_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void WorkQueue::start_thread() {
  ++quick_threads_;
  threads_.emplace_back([this] { work(); });
}

void WorkQueue::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      pushed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    queue_of_quick_task = this;
    task();
    task = {};
    if (queue_of_quick_task == nullptr) return end_slow_task();
    queue_of_quick_task = nullptr;
  }
}

/// The thread, whose priority cannot be raised again, ends with its task.
void WorkQueue::end_slow_task() {
  const std::lock_guard lock(mutex_);
  ++slow_done_;
  // One that had no successor has one now.
  if (!stopping_ && quick_threads_ < threads_wanted_) start_thread();
  const auto own = std::ranges::find(threads_, std::this_thread::get_id(), &std::thread::get_id);
  if (own != threads_.end()) ended_.splice(ended_.end(), threads_, own);
  slow_ended_.notify_all();
}

}  // namespace chimere::serving
