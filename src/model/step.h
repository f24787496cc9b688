// The one call between the engine and a model.
#ifndef CHIMERE_MODEL_STEP_H_
#define CHIMERE_MODEL_STEP_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/api.h"
#include "state/sequence_state.h"
#include "tensor/view.h"

namespace chimere::model {

using kernels::RowClass;

/// Some rows of one sequence in a step: whole chunks of a prompt, or step rows.
struct SequenceRows {
  state::SequenceState* state = nullptr;  ///< rows continue at state->position()
  RowClass row_class = RowClass::kStep;
  std::vector<int32_t> tokens;  ///< one row each, at least one
  /// kChunk only: sizes of the chunks that `tokens` is made of, each 1..64, summing to
  /// tokens.size(); see model/chunking.h.
  std::vector<int32_t> chunks;
  /// kStep only: the state after every row is kept until state->commit(), so that any number of the
  /// rows can be taken back without a copy. Otherwise the rows are committed when forward()
  /// returns.
  bool revocable = false;
  /// Rows (0 = first of this sequence in this step) whose logits are wanted.
  std::vector<int32_t> logits_of;
};

struct StepPlan {
  std::vector<SequenceRows> sequences;  ///< each state at most once
  /// Model::draft() is to know these rows: their keys and values go into the pages of the block
  /// that predicts further tokens. Rows that it does not know cost it acceptance, never exactness.
  bool feed_drafts = false;
  /// Of models that are interruptible(): called in the midst of the step, behind every mixer and
  /// every network. There forward() and draft() may be called for other sequences, whose plans have
  /// no interrupt; the bits of neither step change. Empty: nobody waits.
  std::function<void()> interrupt = {};
};

/// From where Model::draft() goes on: the token behind everything that `state` has seen.
struct DraftStart {
  state::SequenceState* state = nullptr;
  int32_t token = 0;
};

struct StepResult {
  /// [n wanted, n_outputs], in the plan's order; valid until the next forward() or draft(); of a
  /// step in an interrupt: until the interrupt ends, too.
  ConstMatrixView logits;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STEP_H_
