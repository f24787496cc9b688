// Samples the tokens of a step from its logits.
#ifndef CHIMERE_ENGINE_STEP_SAMPLER_H_
#define CHIMERE_ENGINE_STEP_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/step_planner.h"
#include "model/model.h"

namespace chimere::engine {

/// Belongs to one thread; several requests sample in parallel on the pool.
class StepSampler {
 public:
  /// `pool` may be nullptr. Both must outlive the sampler.
  StepSampler(model::Model& model, ThreadPool* pool) : model_(model), pool_(pool) {}

  /// Calls Generation::choose() with the rows of each live generation that samples. `result` is
  /// that of the planned rows.
  void sample(std::span<const PlannedRows> planned, const model::StepResult& result);

 private:
  struct Rows {
    Generation* generation = nullptr;
    model::StepResult rows;
    int64_t first_top = 0;  ///< index in the step's partial logits
  };
  void choose(int64_t begin, int64_t end);

  model::Model& model_;
  ThreadPool* pool_;
  std::vector<Rows> sampling_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_STEP_SAMPLER_H_
