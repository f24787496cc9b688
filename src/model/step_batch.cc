#include "model/step_batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

namespace chimere::model {
namespace {

Status check_chunks(const SequenceRows& rows) {
  if (rows.row_class == RowClass::kDecode) {
    if (rows.chunks.empty()) return {};
    return invalid_argument("decode rows have no chunks; leave `chunks` empty");
  }
  if (rows.revocable) return invalid_argument("only decode rows can be revocable, not chunks");
  size_t sum = 0;
  for (const int32_t size : rows.chunks) {
    if (size < 1 || size > kernels::kMaxChunkRows) {
      return invalid_argument("a chunk of " + std::to_string(size) + " rows; chunks have 1 to " +
                              std::to_string(kernels::kMaxChunkRows));
    }
    sum += static_cast<size_t>(size);
  }
  if (sum != rows.tokens.size()) {
    return invalid_argument("the chunks have " + std::to_string(sum) +
                            " rows in all, the tokens are " + std::to_string(rows.tokens.size()));
  }
  return {};
}

Status check_selected(const SequenceRows& rows, int n_vocab) {
  if (rows.top == 0 && (rows.sums || !rows.selected.empty())) {
    return invalid_argument("`sums` and `selected` need `top` above 0");
  }
  if (!rows.masks.empty() && (rows.top == 0 || rows.masks.size() != rows.logits_of.size())) {
    return invalid_argument("there are " + std::to_string(rows.masks.size()) +
                            " sets of tokens for " + std::to_string(rows.logits_of.size()) +
                            " rows with logits; they need one each, and `top` above 0");
  }
  for (const kernels::TokenMask mask : rows.masks) {
    if (!mask.empty() && static_cast<int64_t>(mask.size()) != kernels::mask_words(n_vocab)) {
      return invalid_argument("a set of tokens has " + std::to_string(mask.size()) +
                              " words; the vocabulary needs " +
                              std::to_string(kernels::mask_words(n_vocab)));
    }
  }
  if (!rows.selected.empty() && rows.selected.size() != rows.logits_of.size()) {
    return invalid_argument(
        "there are " + std::to_string(rows.selected.size()) + " lists of selected tokens for " +
        std::to_string(rows.logits_of.size()) + " rows whose logits are requested");
  }
  for (const std::vector<int32_t>& ids : rows.selected) {
    if (ids.size() > static_cast<size_t>(kernels::kMaxSelectedLogits)) {
      return invalid_argument(std::to_string(ids.size()) +
                              " tokens are selected for a row; at most " +
                              std::to_string(kernels::kMaxSelectedLogits) + " are possible");
    }
    int32_t before = -1;
    for (const int32_t id : ids) {
      if (id <= before || id >= n_vocab) {
        return invalid_argument("selected token " + std::to_string(id) +
                                " is not in the vocabulary, or not above the previous one");
      }
      before = id;
    }
  }
  return {};
}

/// Checks rows with a choice or with async_token.
Status check_choices(const StepPlan& plan) {
  int chosen = 0;
  bool undecided = false;
  for (const SequenceRows& rows : plan.sequences) {
    const bool one =
        rows.row_class == RowClass::kDecode && rows.tokens.size() == 1 && !rows.revocable;
    if (rows.async_token && !one)
      return invalid_argument("a sequence with `async_token` must have one decode row");
    undecided |= !rows.choice && !rows.logits_of.empty();
    if (!rows.choice) continue;
    ++chosen;
    const bool last = rows.logits_of.size() == 1 && rows.top > 0 &&
                      static_cast<size_t>(rows.logits_of[0]) + 1 == rows.tokens.size();
    if (!last || (rows.row_class == RowClass::kDecode && !one)) {
      return invalid_argument(
          "a sequence with `choice` must have one decode row or end its prompt, with the logits "
          "of the last row and `top` requested");
    }
  }
  if (chosen == 0 || (!undecided && chosen <= kernels::kMaxChoices)) return {};
  return invalid_argument(
      "`choice` is set for all sequences of a step that request logits or for none, and for at "
      "most " +
      std::to_string(kernels::kMaxChoices));
}

Status check_tapped(const SequenceRows& rows, const StepLimits& limits) {
  const auto n_taps = static_cast<int64_t>(rows.tapped.size());
  const bool complete = std::ranges::all_of(rows.tapped, [&](const ConstMatrixView& tap) {
    return tap.rows == static_cast<int64_t>(rows.tokens.size()) &&
           tap.cols * n_taps == limits.n_embd;
  });
  if (limits.tapped && complete && n_taps > 0 && rows.embeddings.empty()) return {};
  return invalid_argument(
      "outputs of tapped layers are given to other rows than context rows, or are not complete for "
      "all of a step");
}

/// Tokens and input vectors.
Status check_inputs(const SequenceRows& rows, const StepLimits& limits) {
  size_t n_vectors = 0;
  for (const int32_t token : rows.tokens) {
    if (token == SequenceRows::kEmbeddingRow) {
      ++n_vectors;
    } else if (token < 0 || token >= limits.n_vocab) {
      return invalid_argument("token " + std::to_string(token) + " is not in the vocabulary of " +
                              std::to_string(limits.n_vocab));
    }
  }
  if (limits.tapped || !rows.tapped.empty()) return check_tapped(rows, limits);
  if (rows.embeddings.size() != n_vectors * static_cast<size_t>(limits.n_embd)) {
    return invalid_argument("there are " + std::to_string(rows.embeddings.size()) +
                            " numbers of input vectors for " + std::to_string(n_vectors) +
                            " embedding rows of " + std::to_string(limits.n_embd));
  }
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!std::ranges::all_of(rows.embeddings, finite))
    return invalid_argument("an input vector contains a number that is not finite");
  if (n_vectors > 0 && rows.async_token)
    return invalid_argument("a row with `async_token` cannot have an input vector");
  return {};
}

Status check_block(const SequenceRows& rows, const StepLimits& limits) {
  if (rows.block == 0) return {};
  if (rows.block < 0 || static_cast<size_t>(rows.block) > rows.tokens.size()) {
    return invalid_argument("a block of " + std::to_string(rows.block) + " rows in a sequence of " +
                            std::to_string(rows.tokens.size()));
  }
  if (rows.row_class != RowClass::kDecode || !rows.revocable)
    return invalid_argument("the rows of a block must be revocable decode rows");
  if (limits.recurrent) {
    return unsupported(
        "this model has recurrent layers, which cannot compute a block of non-causal rows; use "
        "causal rows");
  }
  return {};
}

Status check_context(const SequenceRows& rows, const StepLimits& limits) {
  if (!limits.context || (rows.logits_of.empty() && rows.block == 0)) return {};
  return invalid_argument("the context rows of a block drafter have no outputs and no block");
}

Status check_encoder(const SequenceRows& rows, const StepLimits& limits) {
  if (!limits.encoder) return {};
  if (rows.row_class == RowClass::kPrefill && rows.state->position() == 0) return {};
  return invalid_argument(
      "an encoder computes a text in one step, as prefill rows from position 0 on");
}

Status check_taps(const StepPlan& plan, int n_layers) {
  int32_t before = -1;
  for (const int32_t layer : plan.taps) {
    if (layer <= before || layer >= n_layers) {
      return invalid_argument("tapped layer " + std::to_string(layer) +
                              " does not exist, or is not above the previous one; the model has " +
                              std::to_string(n_layers));
    }
    before = layer;
  }
  return {};
}

Status check_adapters(const SequenceRows& rows, const StepLimits& limits) {
  static_assert(kernels::kMaxAdapters <= 64);
  if (rows.adapters.size() > static_cast<size_t>(kernels::kMaxRowAdapters)) {
    return invalid_argument("a sequence has " + std::to_string(rows.adapters.size()) +
                            " adapters; at most " + std::to_string(kernels::kMaxRowAdapters) +
                            " are possible");
  }
  uint64_t seen = 0;
  for (const kernels::AdapterUse& use : rows.adapters) {
    const bool valid = use.adapter >= 0 && use.adapter < kernels::kMaxAdapters;
    const uint64_t bit = valid ? uint64_t{1} << static_cast<unsigned>(use.adapter) : 0;
    if ((limits.adapters & bit) == 0 || (seen & bit) != 0 || !std::isfinite(use.scale)) {
      return invalid_argument("adapter " + std::to_string(use.adapter) +
                              " does not exist, is given twice, or has a scale that is no number");
    }
    seen |= bit;
  }
  return {};
}

Status check(const SequenceRows& rows, const StepLimits& limits) {
  if (rows.tokens.empty()) return invalid_argument("a sequence of the step has no rows");
  CHIMERE_CHECK_OK(check_inputs(rows, limits));
  for (const int32_t row : rows.logits_of) {
    if (row < 0 || static_cast<size_t>(row) >= rows.tokens.size()) {
      return invalid_argument("logits of row " + std::to_string(row) +
                              " are requested, but there are " +
                              std::to_string(rows.tokens.size()) + " rows");
    }
  }
  if (rows.top < 0 || rows.top > kernels::kMaxTopLogits) {
    return invalid_argument("the " + std::to_string(rows.top) +
                            " largest logits are requested; a step gives at most " +
                            std::to_string(kernels::kMaxTopLogits) + ", or all");
  }
  CHIMERE_CHECK_OK(check_selected(rows, limits.n_vocab));
  CHIMERE_CHECK_OK(check_block(rows, limits));
  CHIMERE_CHECK_OK(check_encoder(rows, limits));
  CHIMERE_CHECK_OK(check_context(rows, limits));
  CHIMERE_CHECK_OK(check_adapters(rows, limits));
  return check_chunks(rows);
}

}  // namespace

Result<StepBatch> StepBatch::prepare(const StepPlan& plan, state::StateStore& states,
                                     const StepLimits& limits) {
  if (plan.sequences.empty()) return invalid_argument("the step has no sequences");
  std::vector<state::RowsWanted> wanted;
  size_t n_rows = 0;
  size_t n_logits = 0;
  for (const SequenceRows& rows : plan.sequences) {
    CHIMERE_CHECK_OK(check(rows, limits));
    n_rows += rows.tokens.size();
    n_logits += rows.logits_of.size();
    wanted.push_back({rows.state, static_cast<int32_t>(rows.tokens.size()), rows.revocable});
  }
  CHIMERE_CHECK_OK(check_choices(plan));
  CHIMERE_CHECK_OK(check_taps(plan, limits.n_layers));
  const auto limit = static_cast<size_t>(limits.max_rows);
  if (n_rows > limit || n_logits > limit) {
    return invalid_argument("the step has " + std::to_string(n_rows) +
                            " rows and requests logits of " + std::to_string(n_logits) +
                            "; the model was loaded for " + std::to_string(limits.max_rows));
  }
  CHIMERE_TRY(state::Reservation reservation, states.reserve(wanted));
  StepBatch batch(std::move(reservation));
  batch.n_embd_ = limits.n_embd;
  batch.taps_ = plan.taps;
  for (const SequenceRows& rows : plan.sequences) batch.add(rows);
  batch.add_visible(plan, limits.encoder);
  batch.add_wanted(plan);
  batch.add_selected(plan);
  batch.add_masks(plan, limits.n_vocab);
  batch.add_choices(plan);
  batch.add_adapters(plan);
  return batch;
}

void StepBatch::add_wanted(const StepPlan& plan) {
  constexpr int32_t kMinSeveral = 32;
  for (const bool whole : {true, false}) {
    int32_t first_row = 0;
    for (const SequenceRows& rows : plan.sequences) {
      if ((rows.top == 0) == whole) {
        for (const int32_t offset : rows.logits_of) wanted_rows_.push_back(first_row + offset);
        wanted_classes_.insert(wanted_classes_.end(), rows.logits_of.size(), rows.row_class);
        if (rows.top > top_count_ && !rows.logits_of.empty()) top_count_ = rows.top;
      }
      first_row += static_cast<int32_t>(rows.tokens.size());
    }
    if (whole) n_full_rows_ = static_cast<int64_t>(wanted_rows_.size());
  }
  if (top_count_ > 1) {
    const auto count = static_cast<uint32_t>(std::max(top_count_, kMinSeveral));
    top_count_ = static_cast<int32_t>(std::bit_ceil(count));
  }
}

void StepBatch::add_selected(const StepPlan& plan) {
  constexpr size_t kMinSelected = 64;
  size_t most = 0;
  for (const SequenceRows& rows : plan.sequences) {
    sums_ |= rows.sums && !rows.logits_of.empty();
    for (const std::vector<int32_t>& ids : rows.selected) most = std::max(most, ids.size());
  }
  if (most == 0) return;
  const size_t count = std::bit_ceil(std::max(most, kMinSelected));
  selected_count_ = static_cast<int32_t>(count);
  size_t n = 0;
  for (const SequenceRows& rows : plan.sequences) {
    if (rows.top == 0) continue;
    for (size_t i = 0; i < rows.logits_of.size(); ++i) {
      if (!rows.selected.empty()) {
        selected_.insert(selected_.end(), rows.selected[i].begin(), rows.selected[i].end());
      }
      selected_.resize(++n * count, -1);
    }
  }
}

void StepBatch::add_masks(const StepPlan& plan, int n_vocab) {
  const auto has_masks = [](const SequenceRows& rows) { return !rows.masks.empty(); };
  if (std::ranges::none_of(plan.sequences, has_masks)) return;
  const auto words = static_cast<size_t>(kernels::mask_words(n_vocab));
  for (const SequenceRows& rows : plan.sequences) {
    if (rows.top == 0) continue;
    for (size_t i = 0; i < rows.logits_of.size(); ++i) {
      const kernels::TokenMask mask = has_masks(rows) ? rows.masks[i] : kernels::TokenMask();
      masks_.insert(masks_.end(), mask.begin(), mask.end());
      if (mask.empty()) masks_.insert(masks_.end(), words, ~uint32_t{0});
    }
  }
}

void StepBatch::add_choices(const StepPlan& plan) {
  for (const SequenceRows& rows : plan.sequences) {
    if (rows.choice) choices_.push_back(*rows.choice);
  }
}

void StepBatch::add_adapters(const StepPlan& plan) {
  const auto plain = [](const SequenceRows& rows) { return rows.adapters.empty(); };
  if (std::ranges::all_of(plan.sequences, plain)) return;
  adapter_begin_.push_back(0);
  for (const SequenceRows& rows : plan.sequences) {
    for (size_t r = 0; r < rows.tokens.size(); ++r) {
      adapter_uses_.insert(adapter_uses_.end(), rows.adapters.begin(), rows.adapters.end());
      adapter_begin_.push_back(static_cast<int32_t>(adapter_uses_.size()));
    }
  }
}

void StepBatch::add(const SequenceRows& rows) {
  const auto sequence = static_cast<int32_t>(sequence_slices_.size()) - 1;
  const int32_t first_row = n_rows();
  int32_t position = rows.state->position();
  for (const int32_t token : rows.tokens) {
    tokens_.push_back(token);
    row_sequence_.push_back(sequence);
    row_position_.push_back(position++);
    row_classes_.push_back(rows.row_class);
  }
  if (rows.row_class == RowClass::kDecode) {
    slices_.push_back({sequence, first_row, n_rows() - first_row, RowClass::kDecode});
  }
  int32_t row = first_row;
  for (const int32_t size : rows.chunks) {
    slices_.push_back({sequence, row, size, RowClass::kPrefill});
    row += size;
  }
  sequence_slices_.push_back(static_cast<int32_t>(slices_.size()));
  vectors_.insert(vectors_.end(), rows.embeddings.begin(), rows.embeddings.end());
  n_vectors_ = static_cast<int64_t>(vectors_.size()) / n_embd_;
}

void StepBatch::add_visible(const StepPlan& plan, bool encoder) {
  const auto has_block = [](const SequenceRows& rows) { return rows.block > 0; };
  if (!encoder && std::ranges::none_of(plan.sequences, has_block)) return;
  for (const int32_t position : row_position_) row_visible_.push_back(position + 1);
  size_t end = 0;
  for (const SequenceRows& rows : plan.sequences) {
    end += rows.tokens.size();
    const size_t block = encoder ? rows.tokens.size() : static_cast<size_t>(rows.block);
    for (size_t r = end - block; r < end; ++r) row_visible_[r] = row_position_[end - 1] + 1;
  }
}

kernels::BatchView StepBatch::view() const {
  kernels::BatchView view;
  view.n_rows = n_rows();
  view.n_sequences = static_cast<int32_t>(sequence_slices_.size()) - 1;
  view.slices = slices_;
  view.sequence_slices = sequence_slices_;
  view.row_sequence = row_sequence_;
  view.row_position = row_position_;
  view.row_visible = row_visible_;
  view.read_slot = reservation_.read_slots();
  view.write_slot = reservation_.write_slots();
  view.fold_rows = reservation_.fold_rows();
  view.fold_begin = reservation_.fold_begin();
  view.fold_from = reservation_.fold_from();
  view.keep_row = reservation_.keep_rows();
  view.page_table = reservation_.page_table();
  view.page_begin = reservation_.page_begin();
  view.sequence_keys = reservation_.sequence_keys();
  return view;
}

}  // namespace chimere::model
