// Overlap scheduling: steps are launched before the tokens of the preceding step are known.
#ifndef CHIMERE_ENGINE_OVERLAP_PIPELINE_H_
#define CHIMERE_ENGINE_OVERLAP_PIPELINE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/stopwatch.h"
#include "engine/step_planner.h"
#include "model/model.h"
#include "state/state_store.h"

namespace chimere::engine {

/// A step of which the model computes the rows.
struct LaunchedStep {
  /// The state at a prefix point, taken before later rows change the sequence.
  struct Kept {
    size_t index = 0;  ///< in `planned`
    int64_t position = 0;
    state::Checkpoint state;
  };
  std::vector<PlannedRows> planned;
  model::StepPlan plan;
  std::vector<Kept> kept;
  std::chrono::steady_clock::time_point launched;

  /// Makes `plan` from `planned`, with rows for forward().
  void make_plan();
  /// The rows have been computed or launched: advances the generations.
  void advance();
  /// Forgets rows of generations that have finished. False if no live one is left.
  bool drop_finished();
};

/// The launched steps that have not been waited for, at most two. In the second one, a row whose
/// token the first one samples takes it on the device. Destruction waits for them. Belongs to one
/// thread.
class OverlapPipeline {
 public:
  /// `now`: see EngineOptions.
  OverlapPipeline(model::Model& model, Now now) : model_(model), now_(std::move(now)) {}
  ~OverlapPipeline() { discard(); }
  OverlapPipeline(const OverlapPipeline&) = delete;
  OverlapPipeline& operator=(const OverlapPipeline&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Launches the rows. False, and nothing has changed, if the model does not support it, if a
  /// token must be sampled on the host (Generation::launch_rows()), if a drafter reads outputs of
  /// layers, or if launch() fails: forward()
  /// reports the error.
  bool launch(std::span<const PlannedRows> planned);
  /// The oldest step. Requires that there is one; valid until the launch() after the next one.
  LaunchedStep& oldest() { return steps_[first_]; }
  /// Waits for the oldest step and removes it. The result is valid until the launch() after the
  /// next one. Errors: kIo: the sequences of all steps in flight are lost.
  Result<model::StepResult> wait();
  /// Waits for all steps and ignores their results.
  void discard();

 private:
  model::Model& model_;
  Now now_;
  std::array<LaunchedStep, 2> steps_;  ///< memory is reused
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_OVERLAP_PIPELINE_H_
