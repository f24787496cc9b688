// A worker thread for jobs that the engine thread does not wait for.
#ifndef CHIMERE_ENGINE_BACKGROUND_H_
#define CHIMERE_ENGINE_BACKGROUND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace chimere::engine {

/// Runs jobs one after the other on a thread of its own. A job returns a completion function, which
/// poll() runs on the owner's thread, where it may touch the owner's data. All member functions are
/// for the owner's thread.
class Background {
 public:
  using Done = std::function<void()>;
  using Job = std::function<Done()>;

  /// `wake` is called on the background thread when a completion is ready for poll().
  explicit Background(std::function<void()> wake);
  /// Waits for the job that is running; drops the other jobs and all completions.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(Job job);
  /// Runs the completions that are ready; returns true if there were any. A completion may itself
  /// call wait() and poll().
  bool poll();
  /// Blocks until a completion is ready. Returns at once if no job is outstanding.
  void wait();
  /// Jobs whose completions have not run yet.
  int64_t outstanding() const { return outstanding_; }

 private:
  void work();

  std::function<void()> wake_;
  int64_t outstanding_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Done> results_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_BACKGROUND_H_
