// One thread for work that the engine must not wait for.
#ifndef CHIMERE_ENGINE_BACKGROUND_H_
#define CHIMERE_ENGINE_BACKGROUND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace chimere::engine {

/// Runs jobs one after the other on a thread of its own. What a job returns runs on the owner's
/// thread, in poll(): there it may touch what belongs to the owner. All functions are the owner's.
class Background {
 public:
  using Done = std::function<void()>;
  using Job = std::function<Done()>;

  /// `wake` is called on the background thread when a result is there for poll().
  explicit Background(std::function<void()> wake);
  /// Ends after the job that is running; other jobs and results are dropped.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(Job job);
  /// Runs the results that are there; true if there were any. A result may itself call wait() and
  /// poll().
  bool poll();
  /// Waits until there is a result; at once if there is nothing to wait for.
  void wait();
  /// Jobs whose results have not run yet.
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
