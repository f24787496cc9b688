// Predicts the next event of a periodic series.
#ifndef CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_
#define CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_

#include <chrono>
#include <optional>

namespace chimere::serving {

/// Engine steps follow each other at regular intervals. A consumer that predicts the next one can
/// poll for it and need not be woken: on many machines, virtual ones in particular, waking a thread
/// costs the waker more than all other work per token.
class ArrivalPredictor {
 public:
  using Clock = std::chrono::steady_clock;

  /// Events farther apart begin a new series: beside such intervals the cost of waking a thread is
  /// negligible.
  static constexpr Clock::duration kLongest = std::chrono::milliseconds(5);

  /// Records an event. Returns a time at which the next one has very likely happened, at most a
  /// quarter of the mean interval after it is expected; nothing until some intervals have been
  /// seen.
  std::optional<Clock::time_point> add(Clock::time_point at);

 private:
  static constexpr int kEnough = 4;

  std::optional<Clock::time_point> last_;
  int seen_ = 0;  ///< intervals of this series
  Clock::duration mean_{};
  Clock::duration deviation_{};
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ARRIVAL_PREDICTOR_H_
