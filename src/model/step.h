// The one call between the engine and a model.
#ifndef CHIMERE_MODEL_STEP_H_
#define CHIMERE_MODEL_STEP_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/api.h"
#include "state/sequence_state.h"
#include "tensor/view.h"

namespace chimere::model {

using kernels::RowClass;

/// Some rows of one sequence in a step: whole chunks of a prompt, or decode rows.
struct SequenceRows {
  state::SequenceState* state = nullptr;  ///< rows continue at state->position()
  RowClass row_class = RowClass::kDecode;
  std::vector<int32_t> tokens;  ///< one row each, at least one
  /// kPrefill only: sizes of the chunks that `tokens` is made of, each 1..64, summing to
  /// tokens.size(); see model/chunking.h.
  std::vector<int32_t> chunks;
  /// kDecode only: the state after every row is kept until state->commit(), so that any number of
  /// the rows can be taken back without a copy. Otherwise the rows are committed when forward()
  /// returns.
  bool revocable = false;
  /// Rows (0 = first of this sequence in this step) whose logits are wanted.
  std::vector<int32_t> logits_of;
  /// 0: all their logits; else so many of the largest, at most kMaxTopLogits. On a GPU that is
  /// far less to copy.
  int32_t top = 0;
  /// With `top`: tokens whose logits are wanted by themselves, for each of `logits_of` (or for
  /// none: empty). In rising order, each once, at most kMaxSelectedLogits. They are not among the
  /// largest.
  std::vector<std::vector<int32_t>> selected = {};
  /// With `top`: what the softmax of the whole row is normalised by.
  bool sums = false;
  /// kDecode and one row whose logits are wanted with `top`, of models that feed tokens: how its
  /// token is chosen. All sequences of a step have one, at most kMaxChoices of them, or none.
  std::optional<kernels::TokenChoice> choice = {};
  /// The row's token is the one that the step launched before this one chooses for this sequence,
  /// instead of the one in `tokens`. All sequences of a step or none.
  bool async_token = false;
};

struct StepPlan {
  std::vector<SequenceRows> sequences;  ///< each state at most once
  /// Model::draft() is to know these rows: their keys and values go into the pages of the block
  /// that predicts further tokens. Rows that it does not know cost it acceptance, never exactness.
  bool update_draft_kv = false;
  /// Of models that are interruptible(): called in the midst of a step that has prefill rows (on
  /// the CPU of any), behind every mixer and every network. There forward() and draft() may be
  /// called for other sequences, whose plans have no interrupt; the bits of neither step change.
  /// Empty: nobody waits.
  std::function<void()> interleave = {};
};

/// From where Model::draft() continues: the token behind everything that `state` has seen.
struct DraftStart {
  state::SequenceState* state = nullptr;
  int32_t token = 0;
};

/// Valid until the next forward() or draft(), or the next launch() but one; of a step in an
/// interrupt: until the interrupt ends, too.
struct StepResult {
  /// [n, n_outputs] of the rows whose logits are all wanted, in the plan's order.
  ConstMatrixView logits;
  /// Of the rows of which some are wanted, in the plan's order: for each at least as many as its
  /// sequence asked for.
  kernels::TopLogits top = {};
  /// Of these rows, the listed tokens' in their order; places behind them are -infinity. Without
  /// rows if nobody lists any.
  kernels::SelectedLogits selected = {};
  /// Of these rows, [top.rows]; nullptr if nobody asked.
  const kernels::LogSumExp* sums = nullptr;
  /// Of these rows, [top.rows]: SequenceRows::choice; nullptr without choices.
  const int32_t* chosen = nullptr;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STEP_H_
