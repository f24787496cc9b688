// How many prompt rows a step may have beside replies.
#ifndef CHIMERE_ENGINE_PACE_H_
#define CHIMERE_ENGINE_PACE_H_

#include <cstdint>

namespace chimere::engine {

/// Those who read a reply notice the longest gap between two tokens. A step with prompt rows shall
/// take at most `slowdown` times as long as one without; what rows cost is learned from the steps.
/// A chunk of a prompt cannot be divided: one is always allowed. Where that is too much, the
/// replies have steps of their own in its interrupts (StepPlan::interrupt), patience() after one
/// another.
class Pace {
 public:
  explicit Pace(double slowdown) : slowdown_(slowdown) {}

  /// Most prompt rows of a step with so many replies.
  int64_t prompt_rows(int64_t replies, int64_t most) const;
  /// Whether so many prompt rows would keep replies waiting too long, as far as is known.
  bool too_slow(int64_t replies, int64_t prompt_rows) const;
  /// Seconds between two steps of replies that prompts may take.
  double patience() const { return (slowdown_ - 1) * reply_step_; }
  /// A step took so long.
  void measured(int64_t replies, int64_t prompt_rows, double seconds);

 private:
  double slowdown_;
  double reply_step_ = 0;  ///< seconds of a step of replies alone, a moving average; 0: unknown
  double prompt_row_ = 0;  ///< seconds of a prompt row, likewise
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PACE_H_
