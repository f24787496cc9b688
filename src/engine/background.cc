#include "engine/background.h"

#include <utility>

namespace chimere::engine {

Background::Background(std::function<void()> wake) : wake_(std::move(wake)) {
  for (size_t i = 0; i < kLanes; ++i) {
    threads_[i] = std::thread([this, i] { work(jobs_[i]); });
  }
}

Background::~Background() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Background::post(Job job, Lane lane) {
  ++outstanding_;
  const std::scoped_lock lock(mutex_);
  jobs_[static_cast<size_t>(lane)].push_back(std::move(job));
  changed_.notify_all();
}

bool Background::poll() {
  // One at a time: a completion may call wait() and poll() itself (to free memory).
  for (bool any = false;; any = true) {
    if (!ready()) return any;
    Done done;
    {
      const std::scoped_lock lock(mutex_);
      done = std::move(results_.front());
      results_.pop_front();
      ready_.store(!results_.empty(), std::memory_order_release);
    }
    --outstanding_;
    done();
  }
}

void Background::wait() {
  if (outstanding_ == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !results_.empty(); });
}

void Background::wait_until(std::chrono::steady_clock::time_point deadline) {
  if (outstanding_ == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return !results_.empty(); });
}

void Background::work(std::deque<Job>& jobs) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !jobs.empty(); });
    if (ended_) return;
    Job job = std::move(jobs.front());
    jobs.pop_front();
    lock.unlock();
    Done done = job();
    job = nullptr;  // its captures must be released last on the owner's thread
    lock.lock();
    results_.push_back(std::move(done));
    ready_.store(true, std::memory_order_release);
    changed_.notify_all();
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace chimere::engine
