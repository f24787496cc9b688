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
  // One at a time: a result may wait for the others (to make room), from within.
  for (bool any = false;; any = true) {
    Done done;
    {
      const std::scoped_lock lock(mutex_);
      if (results_.empty()) return any;
      done = std::move(results_.front());
      results_.pop_front();
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
    job = nullptr;  // what it holds must be given up last by the owner's thread
    lock.lock();
    results_.push_back(std::move(done));
    changed_.notify_all();
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace chimere::engine
