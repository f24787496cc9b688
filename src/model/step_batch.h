// A validated step plan, in the form that kernels read.
#ifndef CHIMERE_MODEL_STEP_BATCH_H_
#define CHIMERE_MODEL_STEP_BATCH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/step.h"
#include "state/state_store.h"

namespace chimere::model {

/// What a model takes in one step.
struct StepLimits {
  int n_vocab = 0;
  int n_embd = 0;  ///< elements of an input vector
  int n_layers = 0;
  int max_rows = 0;
  uint64_t adapters = 0;   ///< bit i: adapter i exists
  bool recurrent = false;  ///< some layer is recurrent: it has no non-causal form
  bool encoder = false;    ///< a sequence is complete in one step, as prefill rows that all see it
  bool context = false;    ///< all rows are context rows of a block drafter
  bool tapped = false;     ///< which have SequenceRows::tapped
};

/// Holds the pages and slots of a step until finish(); if it is destroyed before, no state has
/// changed.
class StepBatch {
 public:
  /// Errors: kInvalidArgument (names what is wrong with the plan), kUnsupported (non-causal rows in
  /// a recurrent model), kOutOfMemory (states).
  static Result<StepBatch> prepare(const StepPlan& plan, state::StateStore& states,
                                   const StepLimits& limits);

  kernels::BatchView view() const;
  int32_t n_rows() const { return static_cast<int32_t>(tokens_.size()); }
  std::span<const int32_t> tokens() const { return tokens_; }
  /// The input vectors of embedding rows, [n, n_embd].
  ConstMatrixView vectors() const { return {vectors_.data(), n_vectors_, n_embd_, n_embd_}; }
  /// Rows of the step whose logits are requested: first those with all logits, then those with
  /// `top`, each in the plan's order.
  std::span<const int32_t> wanted_rows() const { return wanted_rows_; }
  /// How many of wanted_rows() have all their logits requested.
  int64_t n_full_rows() const { return n_full_rows_; }
  /// Number of largest logits for each of the other rows: 1, or a power of two from 32 on, which
  /// bounds the number of distinct CUDA graphs.
  int32_t top_count() const { return top_count_; }
  /// For the other rows, the ids of separately gathered logits, [others, selected_count()], padded
  /// with -1. selected_count() is 0 or a power of two from 64 on.
  std::span<const int32_t> selected() const { return selected_; }
  int32_t selected_count() const { return selected_count_; }
  /// For the other rows, the tokens that top_logits() considers, [others, mask_words]; empty: all.
  kernels::TokenMask masks() const { return masks_; }
  /// Some sequence requested log-sum-exp statistics.
  bool sums() const { return sums_; }
  /// How the next tokens of the requested rows are chosen; empty: not on the device.
  std::span<const kernels::TokenChoice> choices() const { return choices_; }
  /// StepPlan::taps.
  std::span<const int32_t> taps() const { return taps_; }
  /// SequenceRows::adapters of every row; empty if no sequence has any.
  kernels::RowAdapters adapters() const { return {adapter_begin_, adapter_uses_}; }
  std::span<const RowClass> row_classes() const { return row_classes_; }
  std::span<const RowClass> wanted_classes() const { return wanted_classes_; }

  /// Commits the step: the sequences advance. Call it when all rows have been computed.
  void finish() { reservation_.apply(); }

 private:
  explicit StepBatch(state::Reservation reservation) : reservation_(std::move(reservation)) {}
  void add(const SequenceRows& rows);
  void add_visible(const StepPlan& plan, bool encoder);
  void add_wanted(const StepPlan& plan);
  void add_selected(const StepPlan& plan);
  void add_masks(const StepPlan& plan, int n_vocab);
  void add_choices(const StepPlan& plan);
  void add_adapters(const StepPlan& plan);

  state::Reservation reservation_;
  std::vector<int32_t> tokens_;
  std::vector<kernels::Slice> slices_;
  std::vector<int32_t> sequence_slices_ = {0};
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> row_position_;
  std::vector<int32_t> row_visible_;  ///< empty: all rows are causal
  std::vector<float> vectors_;
  int64_t n_vectors_ = 0;
  int64_t n_embd_ = 0;
  std::vector<int32_t> wanted_rows_;
  int64_t n_full_rows_ = 0;
  int32_t top_count_ = 0;
  std::vector<int32_t> selected_;
  int32_t selected_count_ = 0;
  std::vector<uint32_t> masks_;
  bool sums_ = false;
  std::vector<kernels::TokenChoice> choices_;
  std::vector<int32_t> taps_;
  std::vector<int32_t> adapter_begin_;
  std::vector<kernels::AdapterUse> adapter_uses_;
  std::vector<RowClass> row_classes_;
  std::vector<RowClass> wanted_classes_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STEP_BATCH_H_
