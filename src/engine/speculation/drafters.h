// The drafters of an engine: proposes drafts for all decoding sequences before a step.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFTERS_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFTERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/stopwatch.h"
#include "engine/speculation/cost_curve.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/sequence_drafts.h"
#include "model/model.h"
#include "sampling/params.h"
#include "state/sequence_state.h"

namespace chimere::engine {

/// A decoding sequence in a round.
struct DraftingSequence {
  SequenceDrafts* drafts = nullptr;
  std::span<const int32_t> history;  ///< prompt and generation
  state::SequenceState* state = nullptr;
  int32_t most = 0;  ///< drafts that can be of use
};

/// The rows of a generation in a step that has ended.
struct StepRows {
  SequenceDrafts* drafts = nullptr;  ///< nullptr: none
  std::span<const int32_t> tokens;   ///< of the rows that stay in the sequence
  int32_t position = 0;              ///< of the first of them
  int64_t first_row = 0;             ///< its index in the step
  bool prompt = false;
};

/// Single-threaded.
class Drafters {
 public:
  /// One drafter for each type that the models can serve. The models must outlive the drafters.
  /// `now` measures passes.
  Drafters(const DrafterModels& models, std::span<const DrafterType* const> types,
           Now now = std::chrono::steady_clock::now);

  /// The drafts of a new generation, valid as long as this object; nullptr if it uses no drafter.
  /// `constraint`: of its output, whose expected tokens are drafts, too; nullptr: none.
  std::unique_ptr<SequenceDrafts> start(Speculation speculation,
                                        const sampling::SamplingParams& sampling,
                                        OutputConstraint* constraint);

  /// Lets every sequence choose its drafts; each drafter is called once for all sequences that want
  /// it. `decoding`: decoding sequences, including those without drafters. `max_rows`: draft rows
  /// over all sequences.
  void propose(std::span<const DraftingSequence> sequences, int32_t decoding, int64_t max_rows);

  /// Passes the outputs of tapped layers to the drafters. `plan` and `taps`: of the model's last
  /// step.
  void observe(const model::StepPlan& plan, std::span<const ConstMatrixView> taps,
               std::span<const StepRows> sequences);

  /// Of all generations so far.
  const SpeculationCounts& counts() const { return counts_; }

  /// Waits for what the drafters still compute, so that it is not measured with the next step.
  void settle();
  /// Records the duration of a step of decode rows, unless a step was the first of its shape
  /// meanwhile (Model::first_steps(), CostCurve::leave_out()).
  void record_step(int32_t rows, int32_t sequences, double seconds);
  const CostCurve& step_costs() const { return steps_; }

 private:
  void observe(size_t drafter, const model::StepPlan& plan, std::span<const ConstMatrixView> taps,
               std::span<const StepRows> sequences);
  /// The drafters that compute, in the order in which they are asked: only one of them drafts for a
  /// sequence in a round. That with the largest mean gain is the first, in most rounds.
  std::span<const size_t> computing();
  void call(size_t drafter, std::span<const DraftingSequence> sequences, int32_t decoding);
  /// Cost of a further row that verifies a draft, relative to that of a token without drafts: as
  /// measured, or what a single generation's is assumed to be; 0 if it is not known yet, or was
  /// last measured many steps ago.
  double relative_row_cost(int32_t decoding) const;

  /// Model::first_steps() of all models.
  int64_t first_steps() const;

  Now now_;
  model::Model& model_;
  const model::Model* draft_;               ///< DrafterModels::draft
  std::vector<DraftingSequence> drafting_;  ///< scratch of propose()
  std::vector<DrafterEntry> entries_;
  SpeculationCounts counts_;
  std::vector<size_t> computing_;  ///< indices of entries
  uint32_t rounds_ = 0;            ///< of computing_
  CostCurve steps_{0.25};          ///< decode steps, by rows
  CostCurve draft_rows_{0};        ///< a row that verifies a draft, by decoding sequences
  int32_t since_plain_ = 0;        ///< steps since the last one without drafts
  int32_t since_drafts_ = 0;       ///< steps since the last one with drafts
  int64_t first_steps_ = 0;        ///< at the last step
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFTERS_H_
