// The rows of Model::draft(): one per sequence, one position further at each depth.
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

/// Holds the KV pages that draft rows write to. They lie past the sequences' positions and are
/// released on destruction.
class DraftChains {
 public:
  /// Errors: those of Model::draft().
  static Result<DraftChains> prepare(std::span<const DraftStart> starts, int depth,
                                     state::StateStore& states, int n_vocab, int max_rows);

  /// Every chain has ended.
  bool done() const { return active_.empty(); }
  /// One row per sequence whose chain continues. Recurrent state is read, not written.
  kernels::BatchView view() const;
  std::span<const int32_t> tokens() const { return tokens_; }

  /// Calls `choose` with the logits of each row. Returns the rows whose chains continue, in order.
  std::vector<int32_t> advance(ConstMatrixView logits, const ChooseDraft& choose);

 private:
  explicit DraftChains(state::Reservation reservation) : reservation_(std::move(reservation)) {}

  state::Reservation reservation_;
  // One row for each sequence whose chain continues.
  std::vector<size_t> active_;  ///< index into `starts`
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> read_slots_;
  std::vector<int32_t> page_begin_;
  std::vector<int32_t> last_unfolded_;  ///< the row block of the last row, if that is not folded
  std::vector<int32_t> fold_begin_ = {0};
  std::vector<uint64_t> sequence_keys_;
  // 0, 1, 2, ... and other arrays that depend on the number of rows only; sized for all sequences.
  std::vector<kernels::Slice> slices_;
  std::vector<int32_t> iota_;
  std::vector<int32_t> no_slots_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_DRAFT_CHAINS_H_
