// The interface between the engine and a model: the plan and the result of one step.
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

/// The rows of one sequence in a step: whole chunks of a prompt (prefill), or decode rows.
struct SequenceRows {
  state::SequenceState* state = nullptr;  ///< rows start at state->position()
  RowClass row_class = RowClass::kDecode;
  /// One per row; not empty. kEmbeddingRow: the row's input is the next row of `embeddings`.
  std::vector<int32_t> tokens;
  static constexpr int32_t kEmbeddingRow = -1;
  /// kPrefill only: sizes of the chunks that `tokens` is made of, each 1..64, summing to
  /// tokens.size(); see model/chunking.h.
  std::vector<int32_t> chunks;
  /// kDecode only: the rows are pending until state->commit(), and any number of them can be taken
  /// back. Each keeps its inputs in a row block; the sequence's next step folds those that remain
  /// into the state. If false, all rows are committed when forward() returns.
  bool revocable = false;
  /// Rows (0 = first of this sequence in this step) whose logits are requested.
  std::vector<int32_t> logits_of;
  /// Input vectors [n, n_embd] for the rows of kEmbeddingRow, in order; finite. They replace rows
  /// of the embedding table. What such rows leave in the state does not follow from token ids: such
  /// a state must not enter the prefix cache. Not in launched steps.
  std::vector<float> embeddings = {};
  /// For the context rows of a block drafter in place of `embeddings`, in all sequences of a step
  /// or in none: for each of BlockDraft::taps the layer's outputs [tokens.size(), n_embd] in
  /// Model::memory(). Work that is queued there after forward() may overwrite them.
  std::vector<ConstMatrixView> tapped = {};
  /// kDecode and `revocable` only: the last `block` rows attend to one another, whatever their
  /// order (non-causal attention), and to everything before them. 0: every row attends to the rows
  /// up to itself. The other rows of the sequence come before the block and may be committed; rows
  /// of the block should be taken back, because later causal rows would see keys and values of a
  /// non-causal pass. Errors: kUnsupported from a model with recurrent layers.
  int32_t block = 0;
  /// Encoders that know two segments only: rows from this one on are of the second ("token type"
  /// 1), as in the pairs of a cross-encoder. 0: there is none.
  int32_t second_segment = 0;
  /// Adapters of all rows (Model::add_adapter()), at most kMaxRowAdapters, none twice; added in
  /// this order. Part of what the sequence's state follows from.
  std::vector<kernels::AdapterUse> adapters = {};
  /// 0: all logits of these rows; else only the `top` largest, at most kMaxTopLogits, which a GPU
  /// copies to the host much faster.
  int32_t top = 0;
  /// With `top`: for each of `logits_of` (or empty: for none) the ids of tokens whose logits are
  /// gathered separately. Rising, without duplicates, at most kMaxSelectedLogits. They are excluded
  /// from the largest.
  std::vector<std::vector<int32_t>> selected = {};
  /// With `top`: for each of `logits_of` (or empty: for none) the tokens that the largest are taken
  /// from; an empty set stands for all tokens. Must outlive the step's forward().
  std::vector<kernels::TokenMask> masks = {};
  /// With `top`: also return the log-sum-exp statistics of the whole row.
  bool sums = false;
  /// For one decode row, or prefill rows up to the end of a prompt, with `top` logits of the last
  /// row, on models that supports_overlap(): how the next token is chosen on the device. All
  /// sequences of a step that request logits have a choice, at most kMaxChoices of them, or none.
  std::optional<kernels::TokenChoice> choice = {};
  /// Asynchronous scheduling: the token of the one decode row is the one that the previously
  /// launched step chooses for this sequence; `tokens` is ignored.
  bool async_token = false;
};

struct StepPlan {
  std::vector<SequenceRows> sequences;  ///< each state at most once
  /// Write the KV of these rows for the MTP head too. Rows without it lower draft acceptance, never
  /// change results. Ignored in steps with embedding rows.
  bool update_draft_kv = false;
  /// Layers, rising, whose output (the residual stream after the layer) is wanted:
  /// StepResult::taps. Not in launched steps.
  std::vector<int32_t> taps = {};
  /// On models that can_interleave(): called during a step that has prefill rows (on the CPU during
  /// any step), after every mixer and every feed-forward network. The callback may call forward()
  /// and draft() for other sequences, in plans without `interleave`; the bits of neither step
  /// change. Empty: no interleaved decode.
  std::function<void()> interleave = {};
};

/// Where Model::draft() continues: `token` follows everything that `state` has seen.
struct DraftStart {
  state::SequenceState* state = nullptr;
  int32_t token = 0;
};

/// Valid until the next forward() or draft(), or until the launch() after the next one. The result
/// of an interleaved step is also invalid once StepPlan::interleave returns.
struct StepResult {
  /// [n, n_outputs] of the rows with all logits (top == 0), in the plan's order.
  ConstMatrixView logits;
  /// Of the rows with `top`, in the plan's order: at least as many logits per row as requested.
  kernels::TopLogits top = {};
  /// Of the same rows, the logits of the selected tokens in their order, padded with -infinity.
  /// Zero rows if no sequence selects any.
  kernels::SelectedLogits selected = {};
  /// Of the same rows, [top.rows]; nullptr if no sequence requested them.
  const kernels::LogSumExp* sums = nullptr;
  /// Of the same rows, [top.rows]: the tokens chosen by SequenceRows::choice; nullptr without
  /// choices.
  const int32_t* chosen = nullptr;
  /// For each of StepPlan::taps the layer's output [rows of the step, n_embd], in the plan's order,
  /// in Model::memory(): see Model::read_taps(). The outputs of a row follow one another.
  std::vector<ConstMatrixView> taps = {};
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STEP_H_
