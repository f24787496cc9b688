// How many prompt rows a step may have beside generations.
#ifndef CHIMERE_ENGINE_PREFILL_BUDGET_H_
#define CHIMERE_ENGINE_PREFILL_BUDGET_H_

#include <cstdint>

namespace chimere::engine {

/// Those who read a generation notice the longest gap between two tokens. A step with prompt rows
/// shall take at most `slowdown` times as long as one without; what rows cost is learned from the
/// steps. A chunk of a prompt cannot be divided: one is always allowed. Where that is too much, the
/// generations have steps of their own in its interrupts (StepPlan::interrupt), itl_budget() after
/// one another.
class PrefillBudget {
 public:
  explicit PrefillBudget(double max_itl_ratio) : max_itl_ratio_(max_itl_ratio) {}

  /// Most prompt rows of a step with so many generations.
  int64_t prompt_rows(int64_t generations, int64_t most) const;
  /// Whether so many prompt rows would keep generations waiting too long, as far as is known.
  bool too_slow(int64_t generations, int64_t prompt_rows) const;
  /// Seconds between two steps of generations that prompts may take.
  double itl_budget() const { return (max_itl_ratio_ - 1) * decode_step_; }
  /// A step took so long.
  void measured(int64_t generations, int64_t prompt_rows, double seconds);

 private:
  double max_itl_ratio_;
  double decode_step_ =
      0;                   ///< seconds of a step of generations alone, a moving average; 0: unknown
  double prompt_row_ = 0;  ///< seconds of a prompt row, likewise
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFILL_BUDGET_H_
