#include "serving/compile_queue.h"

#include <algorithm>
#include <utility>

#include "base/system.h"

namespace chimere::serving {
namespace {

/// What this thread runs.
enum class Running { kNothing, kQuickTask, kSlowTask };
thread_local Running running = Running::kNothing;

}  // namespace

CompileQueue::CompileQueue(int quick, int slow, size_t max_waiting)
    : quick_(static_cast<size_t>(quick)),
      slow_(static_cast<uint64_t>(slow)),
      max_waiting_(max_waiting) {
  const std::lock_guard lock(mutex_);
  while (quick_threads_ < quick_) start_thread();
}

CompileQueue::~CompileQueue() { stop(); }

bool CompileQueue::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= max_waiting_) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();  // threads of slow tasks wait for something else
  return true;
}

void CompileQueue::yield() {
  if (running != Running::kQuickTask) return;
  running = Running::kSlowTask;
  lower_thread_priority();
  std::unique_lock lock(mutex_);
  for (; !ended_.empty(); ended_.pop_front()) ended_.front().join();
  --quick_threads_;
  if (!stopping_ && threads_.size() < kMostThreads) start_thread();
  const uint64_t place = slow_begun_++;
  changed_.wait(lock, [&] { return stopping_ || place < slow_ended_ + slow_; });
}

void CompileQueue::stop() {
  std::list<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    threads.splice(threads.end(), threads_);
    threads.splice(threads.end(), ended_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void CompileQueue::start_thread() {
  ++quick_threads_;
  threads_.emplace_back([this] { work(); });
}

void CompileQueue::work() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    running = Running::kQuickTask;
    task();
    task = {};
    if (running == Running::kSlowTask) return end_slow_task();
    running = Running::kNothing;
  }
}

/// The thread, whose priority cannot be raised again, ends with its task.
void CompileQueue::end_slow_task() {
  const std::lock_guard lock(mutex_);
  ++slow_ended_;
  // One that had no successor has one now.
  if (!stopping_ && quick_threads_ < quick_) start_thread();
  const auto own = std::ranges::find(threads_, std::this_thread::get_id(), &std::thread::get_id);
  if (own != threads_.end()) ended_.splice(ended_.end(), threads_, own);
  changed_.notify_all();
}

}  // namespace chimere::serving
