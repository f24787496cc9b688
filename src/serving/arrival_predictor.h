// When the next of a train of events is due.
#ifndef CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_
#define CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_

#include <chrono>
#include <optional>

namespace chimere::serving {

/// Steps of the engine follow each other at about the same distance. Whoever knows it can look for
/// the next one by himself, and need not be woken: on many machines, virtual ones above all, waking
/// a thread costs the one that does it more than everything else that a token needs.
class ArrivalPredictor {
 public:
  using Clock = std::chrono::steady_clock;

  /// Events that are farther apart begin a new train: a call to wake someone is nothing beside
  /// them.
  static constexpr Clock::duration kLongest = std::chrono::milliseconds(5);

  /// An event came at `at`. Returns when the next one will be there most of the time, at most a
  /// quarter of their distance behind it; nothing before some have been seen.
  std::optional<Clock::time_point> add(Clock::time_point at);

 private:
  static constexpr int kEnough = 4;

  std::optional<Clock::time_point> last_;
  int seen_ = 0;  ///< distances of this train
  Clock::duration mean_{};
  Clock::duration deviation_{};
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_
