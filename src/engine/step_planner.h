// Chooses the rows of a step.
#ifndef CHIMERE_ENGINE_STEP_PLANNER_H_
#define CHIMERE_ENGINE_STEP_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/generation.h"
#include "engine/prefill_budget.h"

namespace chimere::engine {

/// The part of one request in a step.
struct PlannedRows {
  Generation* generation = nullptr;  ///< nullptr: it has ended since the step was launched
  int64_t prompt_rows = 0;           ///< 0: decode rows
  bool samples = true;               ///< logits of these rows are used; see Generation::samples()

  bool decodes() const { return prompt_rows == 0; }
};

/// A step contains the decode rows of each decoding request, then whole prompt chunks: as many as
/// PrefillBudget allows, round-robin over the owners that have requests in prefill, and over the
/// requests of each owner. The first owner rotates from step to step. Belongs to one thread.
class StepPlanner {
 public:
  StepPlanner(int32_t max_step_rows, double max_itl_ratio)
      : max_step_rows_(max_step_rows), budget_(max_itl_ratio) {}

  /// Replaces `out` by the next rows of `running`. A request whose last token a step in flight
  /// samples has none.
  void plan(std::span<const std::unique_ptr<Generation>> running, std::vector<PlannedRows>& out);
  /// Replaces `out` by the decode rows alone.
  static void plan_decode(std::span<const std::unique_ptr<Generation>> running,
                          std::vector<PlannedRows>& out);
  /// Rows of the next step that are available for drafts.
  int64_t draft_rows(std::span<const std::unique_ptr<Generation>> running) const;

  /// The prompt rows would exceed the inter-token-latency budget of the decode rows.
  bool too_slow(std::span<const PlannedRows> planned) const;
  /// Seconds of prefill allowed between two decode steps.
  double itl_budget() const { return budget_.itl_budget(); }
  /// Records the duration of a step.
  void record(std::span<const PlannedRows> planned, double seconds);

 private:
  void add_chunks(std::span<const std::unique_ptr<Generation>> running, int64_t rows,
                  std::vector<PlannedRows>& out);

  int32_t max_step_rows_;
  PrefillBudget budget_;
  size_t turn_ = 0;  ///< rotates the owner that gets the first prompt chunk
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_STEP_PLANNER_H_
