// How many prompt rows a step may contain beside decode rows.
#ifndef CHIMERE_ENGINE_PREFILL_BUDGET_H_
#define CHIMERE_ENGINE_PREFILL_BUDGET_H_

#include <cstdint>

namespace chimere::engine {

/// Bounds the inter-token latency (ITL): a step with prompt rows should take at most
/// `max_itl_ratio` times as long as a decode step alone. The cost of a row is learned from measured
/// steps. A prompt chunk cannot be split, so one chunk is always allowed. Where even one chunk
/// takes too long, decode steps are interleaved with it (StepPlan::interleave), itl_budget()
/// seconds apart.
class PrefillBudget {
 public:
  explicit PrefillBudget(double max_itl_ratio) : max_itl_ratio_(max_itl_ratio) {}

  /// Most prompt rows of a step with `generations` decoding requests; `most`: rows that are free.
  int64_t prompt_rows(int64_t generations, int64_t most) const;
  /// Whether so many prompt rows would exceed the ITL budget, as far as is known.
  bool too_slow(int64_t generations, int64_t prompt_rows) const;
  /// Seconds of prefill allowed between two decode steps.
  double itl_budget() const { return (max_itl_ratio_ - 1) * decode_step_; }
  /// Records the duration of a step.
  void record(int64_t generations, int64_t prompt_rows, double seconds);

 private:
  double max_itl_ratio_;
  /// Seconds of a decode step without prompt rows, a moving average; 0: unknown.
  double decode_step_ = 0;
  double prompt_row_ = 0;  ///< seconds per prompt row, likewise
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFILL_BUDGET_H_
