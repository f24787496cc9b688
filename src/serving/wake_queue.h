// Wakes the server's thread when responses have new data.
#ifndef CHIMERE_SERVING_WAKE_QUEUE_H_
#define CHIMERE_SERVING_WAKE_QUEUE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/mpsc_list.h"
#include "base/wake_descriptor.h"
#include "serving/arrival_predictor.h"
#include "serving/response_stream.h"

namespace chimere::serving {

/// Receives wake-ups on the server's thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_wake() = 0;
};

/// Wakes the server's thread from other threads, without locks. Urgent wake-ups write to a
/// descriptor, with one system call for all that arrive until the thread handles them; others may
/// wait for the time at which the thread polls the queue anyway.
class WakeQueue {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WakeQueue(WakeDescriptor wake) : wake_(std::move(wake)) {}

  /// Any thread.
  void add(std::weak_ptr<Listener> listener, ResponseStream::Urgency urgency);
  /// Runs the pending wake-ups on the server's thread. Returns the time of the next call that must
  /// happen without a wake-up.
  std::optional<Clock::time_point> notify_listeners();

  int descriptor() const { return wake_.duplicate(); }

 private:
  struct Wake {
    std::weak_ptr<Listener> listener;
    Clock::time_point time;
  };

  WakeDescriptor wake_;
  MpscList<Wake> wakes_;
  std::atomic<bool> woken_ = false;  ///< the descriptor has been written for them
  std::atomic<bool> polls_ = false;  ///< the server's thread will call notify_listeners() by itself
  ArrivalPredictor arrival_predictor_;
  std::vector<Wake> notifying_;  ///< scratch
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_WAKE_QUEUE_H_
