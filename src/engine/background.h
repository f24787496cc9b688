// Threads for work that the engine must not wait for.
#ifndef CHIMERE_ENGINE_BACKGROUND_H_
#define CHIMERE_ENGINE_BACKGROUND_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace chimere::engine {

/// Runs jobs on two threads of its own, those of one lane one after the other. What a job returns
/// runs on the owner's thread, in poll(): there it may touch what belongs to the owner. All
/// functions are the owner's.
class Background {
 public:
  using Done = std::function<void()>;
  using Job = std::function<Done()>;

  enum class Lane : size_t {
    kOrdered,  ///< copies and writes
    kQuick,    ///< what a request waits for while a long write runs
  };

  /// `wake` is called on a background thread when a result is there for poll().
  explicit Background(std::function<void()> wake);
  /// Ends after the jobs that are running; other jobs and results are dropped.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(Job job, Lane lane = Lane::kOrdered);
  /// Runs the results that are there; true if there were any. A result may itself call wait() and
  /// poll().
  bool poll();
  /// Waits until there is a result; at once if there is nothing to wait for.
  void wait();
  /// The same until `deadline` at most.
  void wait_until(std::chrono::steady_clock::time_point deadline);
  /// Jobs whose results have not run yet.
  int64_t outstanding() const { return outstanding_; }

 private:
  static constexpr size_t kLanes = 2;

  void work(std::deque<Job>& jobs);

  std::function<void()> wake_;
  int64_t outstanding_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Job>, kLanes> jobs_;
  std::deque<Done> results_;
  bool ended_ = false;
  std::array<std::thread, kLanes> threads_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_BACKGROUND_H_
