#include "model/draft_chains.h"

#include <string>

namespace chimere::model {

Result<DraftChains> DraftChains::prepare(std::span<const DraftStart> starts, int depth,
                                         state::StateStore& states, int n_vocab, int max_rows) {
  if (starts.empty() || depth < 1)
    return invalid_argument("draft() needs at least one sequence and a depth of at least 1");
  if (starts.size() > static_cast<size_t>(max_rows)) {
    return invalid_argument("drafts for " + std::to_string(starts.size()) +
                            " sequences; the model was loaded for " + std::to_string(max_rows));
  }
  std::vector<state::RowsWanted> wanted;
  for (const DraftStart& start : starts) {
    if (start.token < 0 || start.token >= n_vocab) {
      return invalid_argument("token " + std::to_string(start.token) +
                              " is not in the vocabulary of " + std::to_string(n_vocab));
    }
    wanted.push_back({.sequence = start.state, .rows = depth, .scratch = true});
  }
  CHIMERE_TRY(state::Reservation reservation, states.reserve(wanted));
  DraftChains chains(std::move(reservation));
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto row = static_cast<int32_t>(i);
    chains.active_.push_back(i);
    chains.tokens_.push_back(starts[i].token);
    chains.positions_.push_back(starts[i].state->position());
    chains.read_slots_.push_back(chains.reservation_.read_slots()[i]);
    chains.page_begin_.push_back(chains.reservation_.page_begin()[i]);
    chains.sequence_keys_.push_back(chains.reservation_.sequence_keys()[i]);
    chains.slices_.push_back({row, row, 1, RowClass::kDecode});
    chains.iota_.push_back(row);
    chains.no_slots_.push_back(-1);
    const auto unfolded = std::span(chains.reservation_.fold_begin()).subspan(i, 2);
    if (unfolded[0] < unfolded[1]) {
      chains.last_unfolded_.push_back(
          chains.reservation_.fold_rows()[static_cast<size_t>(unfolded[1]) - 1]);
    }
    chains.fold_begin_.push_back(static_cast<int32_t>(chains.last_unfolded_.size()));
  }
  chains.iota_.push_back(static_cast<int32_t>(starts.size()));
  return chains;
}

kernels::BatchView DraftChains::view() const {
  const size_t n = active_.size();
  kernels::BatchView view;
  view.n_rows = view.n_sequences = static_cast<int32_t>(n);
  view.slices = std::span(slices_).first(n);
  view.sequence_slices = std::span(iota_).first(n + 1);
  view.row_sequence = std::span(iota_).first(n);
  view.row_position = positions_;
  view.read_slot = read_slots_;
  view.write_slot = std::span(no_slots_).first(n);
  view.fold_rows = last_unfolded_;
  view.fold_begin = fold_begin_;
  view.fold_from = std::span(no_slots_).first(n);
  view.page_table = reservation_.page_table();
  view.page_begin = page_begin_;
  view.sequence_keys = sequence_keys_;
  return view;
}

std::vector<int32_t> DraftChains::advance(ConstMatrixView logits, const ChooseDraft& choose) {
  std::vector<int32_t> kept;
  for (size_t row = 0; row < active_.size(); ++row) {
    const int32_t token = choose(
        active_[row], {logits.row(static_cast<int64_t>(row)), static_cast<size_t>(logits.cols)});
    if (token < 0) continue;
    const size_t to = kept.size();
    active_[to] = active_[row];
    tokens_[to] = token;
    positions_[to] = positions_[row] + 1;
    read_slots_[to] = read_slots_[row];
    page_begin_[to] = page_begin_[row];
    sequence_keys_[to] = sequence_keys_[row];
    kept.push_back(static_cast<int32_t>(row));
  }
  const size_t n = kept.size();
  active_.resize(n);
  tokens_.resize(n);
  positions_.resize(n);
  read_slots_.resize(n);
  // Only the first rows of the chains read the recurrent state.
  last_unfolded_.clear();
  fold_begin_.assign(n + 1, 0);
  page_begin_.resize(n);
  sequence_keys_.resize(n);
  return kept;
}

}  // namespace chimere::model
