// The state of a token sequence in a model: paged KV, convolution windows, recurrent states.
//
// Nothing here copies a whole state. KV pages, recurrent slots and row blocks are reference-counted
// and do not change after a step: a step writes to new blocks, unless the sequence holds the only
// reference. A fork or checkpoint therefore costs lists of block numbers; only a partly filled page
// that two sequences continue is ever copied.
//
// A row that may be taken back does not write the recurrent state: it keeps its inputs in a row
// block. The next step of the sequence folds the row blocks that commit() has kept into the state.
//
// Layers with a window have page lists of their own. A page that no row from the committed position
// on sees is returned; checkpoints keep what they need.
#ifndef CHIMERE_STATE_SEQUENCE_STATE_H_
#define CHIMERE_STATE_SEQUENCE_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "state/state_image.h"

namespace chimere::state {

class SequenceState;
class StatePools;

/// An immutable snapshot of a sequence after `position` tokens. Copies are cheap. It can be
/// restored any number of times, and holds references to its pages, slot and row blocks. Must not
/// outlive its store.
class Checkpoint {
 public:
  Checkpoint(const Checkpoint& other);
  Checkpoint& operator=(Checkpoint other) noexcept;
  Checkpoint(Checkpoint&& other) noexcept;
  ~Checkpoint();

  /// Number of tokens seen.
  int32_t position() const { return position_; }

  /// A new sequence that continues from here.
  std::unique_ptr<SequenceState> restore() const;

  /// Writes bytes that StateStore::read() of a store with the same fingerprint turns back into the
  /// same state (docs/state-blob.md). Errors: those of the sink and of the store's memory.
  Status write(ByteSink& to) const;
  /// Number of bytes that write() writes.
  uint64_t stored_bytes() const;
  /// The same as a vector; empty (not a valid blob) if the state's device failed.
  std::vector<uint8_t> to_blob() const;
  /// A copy of the bytes from page `first_page` on. Unlike everything else here, any thread may
  /// call it while the checkpoint lives, because a checkpoint's blocks do not change. If the
  /// state's device failed, the image has neither pages nor slot, and StateStore::assemble()
  /// refuses it.
  StateImage image(int32_t first_page) const;

 private:
  friend class StateStore;
  friend class SequenceState;
  friend class Reservation;
  explicit Checkpoint(StatePools& pools);
  /// The pages of one page group with a window.
  struct WindowPages {
    std::vector<int32_t> pages;  ///< of [0, position_); the first `behind` have been returned
    size_t behind = 0;
  };

  void release_pages_beyond_position();
  void release_pages_behind_windows();
  int window(size_t group) const;
  /// Allocates the pages of the windows for a state after `position` tokens. Errors: those of
  /// StatePools::allocate().
  Status allocate_windows(int32_t position);

  StatePools* pools_;
  int32_t position_ = 0;
  int32_t slot_ = 0;                  ///< recurrent state after position_ - unfolded_.size() tokens
  std::vector<int32_t> unfolded_;     ///< row blocks of the last tokens, in order
  std::vector<int32_t> pages_;        ///< KV of [0, position_), in order
  std::vector<WindowPages> windows_;  ///< [page groups with a window]
};

/// The state of one sequence, made by StateStore::create(), fork() or restore(). Destroying it
/// releases its blocks. Must not outlive its store; only one thread at a time may use a store and
/// its sequences.
class SequenceState {
 public:
  ~SequenceState();
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  /// Number of committed tokens.
  int32_t position() const { return now_.position(); }
  /// Rows of the last step that await commit(); 0 unless the step was revocable for this sequence.
  int32_t pending_rows() const { return pending_rows_; }

  /// Keeps the first `rows` pending rows and discards the others; copies and computes nothing.
  /// Errors:
  /// kInvalidArgument unless 0 <= rows <= pending_rows().
  Status commit(int32_t rows);

  /// The committed state. Pending rows are not part of it.
  Checkpoint checkpoint() const;
  /// A second sequence that continues from the committed state.
  std::unique_ptr<SequenceState> fork() const { return checkpoint().restore(); }

  /// Identifies this sequence: no other one of the process ever has the same key. Page lists of
  /// its steps agree in all pages that were full before the earlier step.
  uint64_t key() const { return key_; }

 private:
  friend class Checkpoint;
  friend class StateStore;
  friend class Reservation;
  explicit SequenceState(Checkpoint from);

  uint64_t key_;
  Checkpoint now_;  ///< its pages may extend past its position while rows are pending
  int32_t pending_rows_ = 0;
  std::vector<int32_t> pending_;  ///< row blocks of the pending rows; empty without recurrent state
  bool reserved_ = false;         ///< part of a step that is being computed
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_SEQUENCE_STATE_H_
