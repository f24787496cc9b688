// The rows of Model::draft(): one for each sequence, one position further at each depth.
#ifndef CHIMERE_MODEL_DRAFT_CHAINS_H_
#define CHIMERE_MODEL_DRAFT_CHAINS_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/model.h"
#include "state/state_store.h"
#include "tensor/view.h"

namespace chimere::model {

/// Holds the pages that the rows write to; they lie behind what the sequences have seen, and go
/// back when it is destroyed.
class DraftChains {
 public:
  /// Errors: those of Model::draft().
  static Result<DraftChains> prepare(std::span<const DraftStart> starts, int depth,
                                     state::StateStore& states, int n_vocab, int max_rows);

  /// Nobody continues.
  bool done() const { return active_.empty(); }
  /// A row for each sequence that continues. The state is read from and not written.
  kernels::BatchView view() const;
  std::span<const int32_t> tokens() const { return tokens_; }

  /// Lets `choose` look at the logits of the rows. Returns the rows that continue, in order.
  std::vector<int32_t> advance(ConstMatrixView logits, const ChooseDraft& choose);

 private:
  explicit DraftChains(state::Reservation reservation) : reservation_(std::move(reservation)) {}

  state::Reservation reservation_;
  // Of the sequences that continue, one row each.
  std::vector<size_t> active_;  ///< which of `starts`
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> read_slots_;
  std::vector<int32_t> page_begin_;
  // 0, 1, 2, ... and what else depends on the number of rows alone; made for all sequences.
  std::vector<kernels::Slice> slices_;
  std::vector<int32_t> counting_;
  std::vector<int32_t> no_slots_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_DRAFT_CHAINS_H_
