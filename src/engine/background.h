// Worker threads for jobs that the engine thread does not wait for.
#ifndef CHIMERE_ENGINE_BACKGROUND_H_
#define CHIMERE_ENGINE_BACKGROUND_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace chimere::engine {

/// Runs jobs on two threads of its own, one per lane; the jobs of a lane run one after the other. A
/// job returns a completion function, which poll() runs on the owner's thread, where it may touch
/// the owner's data. All member functions are for the owner's thread.
class Background {
 public:
  using Done = std::function<void()>;
  using Job = std::function<Done()>;

  enum class Lane : size_t {
    kOrdered,  ///< copies and writes
    kQuick,    ///< jobs that a request waits for; not delayed by a long write
  };

  /// `wake` is called on a background thread when a completion is ready for poll().
  explicit Background(std::function<void()> wake);
  /// Waits for the jobs that are running; drops the other jobs and all completions.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void post(Job job, Lane lane = Lane::kOrdered);
  /// Runs the completions that are ready; returns true if there were any. A completion may itself
  /// call wait() and poll().
  bool poll();
  /// Whether poll() would run a completion; takes no lock.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  /// Blocks until a completion is ready. Returns at once if no job is outstanding.
  void wait();
  /// Like wait(), but returns at `deadline` at the latest.
  void wait_until(std::chrono::steady_clock::time_point deadline);
  /// Jobs whose completions have not run yet.
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
  std::atomic<bool> ready_ = false;  ///< `results_` is not empty
  bool ended_ = false;
  std::array<std::thread, kLanes> threads_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_BACKGROUND_H_
