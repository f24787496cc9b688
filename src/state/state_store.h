// Makes, reads and assembles the states of a model's sequences, and reserves the blocks that their
// steps take from the pools.
#ifndef CHIMERE_STATE_STATE_STORE_H_
#define CHIMERE_STATE_STATE_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "state/sequence_state.h"
#include "state/spec.h"
#include "state/state_image.h"
#include "state/state_pools.h"
#include "tensor/memory.h"

namespace chimere::state {

/// How far a step advances one sequence.
struct RowsWanted {
  SequenceState* sequence = nullptr;
  int32_t rows = 0;        ///< at least 1
  bool revocable = false;  ///< the rows are pending until SequenceState::commit()
  /// The rows only write KV past the sequence's position and are never applied: no slot and no row
  /// block is reserved, and read_slots() is -1 if rows are to be folded.
  bool scratch = false;
};

/// Blocks reserved for a step, and where its rows read and write their state. Without apply(),
/// destruction releases the blocks and no sequence has changed.
class Reservation {
 public:
  ~Reservation();
  Reservation(Reservation&&) = default;
  Reservation& operator=(Reservation&&) = delete;

  /// Call when the rows have been computed: advances every sequence, or keeps its rows pending if
  /// they are revocable.
  void apply();

  /// [n_sequences] slot of the state before the first row; 0 if the model has no recurrent state. A
  /// sequence with rows to fold gets this state from fold_from() and those rows.
  std::span<const int32_t> read_slots() const { return read_slots_; }
  /// [n_rows] slot for the state after that row; -1: not stored.
  std::span<const int32_t> write_slots() const { return write_slots_; }
  /// [n_sequences] slot that the rows to fold continue; may be read_slots(). -1: none to fold.
  std::span<const int32_t> fold_from() const { return fold_from_; }
  /// Row blocks to fold, the sequences' lists concatenated.
  std::span<const int32_t> fold_rows() const { return fold_rows_; }
  /// [n_sequences + 1] start of each sequence's list in fold_rows().
  std::span<const int32_t> fold_begin() const { return fold_begin_; }
  /// [n_rows] row block where a revocable row keeps its inputs; -1: none.
  std::span<const int32_t> keep_rows() const { return keep_rows_; }
  /// The sequences' page lists, concatenated, each including pages for its new rows: those of page
  /// group 0, then those of each group with a window, where pages before the window have any
  /// number.
  std::span<const int32_t> page_table() const { return page_table_; }
  /// [page groups, n_sequences] start of each sequence's list in page_table().
  std::span<const int32_t> page_begin() const { return page_begin_; }
  /// [n_sequences] SequenceState::key().
  std::span<const uint64_t> sequence_keys() const { return sequence_keys_; }

 private:
  friend class StateStore;
  explicit Reservation(StatePools& pools);

  Status add(const RowsWanted& wanted);
  /// A sequence's page list of a group, with pages for its new rows, goes to the end of `table`.
  Status add_pages(const SequenceState& sequence, int32_t rows, size_t group,
                   std::vector<int32_t>& table);
  void append_window_tables();
  BlockPool& page_pool(size_t group);
  Status add_slots(const RowsWanted& wanted);

  StatePools* pools_;
  std::vector<RowsWanted> wanted_;
  /// [page groups] not yet referenced by a sequence
  std::vector<std::vector<int32_t>> new_pages_;
  /// The lists of one page group with a window.
  struct WindowTable {
    std::vector<int32_t> pages;
    std::vector<int32_t> begin = {0};  ///< [n_sequences + 1]
  };
  std::vector<WindowTable> window_tables_;
  std::vector<int32_t> new_slots_;
  std::vector<int32_t> new_row_blocks_;
  std::vector<int32_t> read_slots_;
  std::vector<int32_t> write_slots_;
  std::vector<int32_t> fold_from_;
  std::vector<int32_t> fold_rows_;
  std::vector<int32_t> fold_begin_ = {0};
  std::vector<int32_t> keep_rows_;
  std::vector<int32_t> page_table_;
  std::vector<int32_t> page_begin_;
  std::vector<uint64_t> sequence_keys_;
};

/// Makes the sequences of one model, and reserves what their steps need. Must outlive its sequences
/// and checkpoints. Not thread-safe.
class StateStore : public StatePools {
 public:
  /// `memory` holds the states and must outlive the store. Errors: kInvalidArgument (spec),
  /// kOutOfMemory (address space).
  static Result<std::unique_ptr<StateStore>> create(StateSpec spec, Memory& memory = host_memory());

  /// A sequence that has seen no token. Uses no blocks before its first step.
  std::unique_ptr<SequenceState> create_sequence();

  /// Reserves the blocks that the rows need. Errors: kInvalidArgument (no rows, a sequence given
  /// twice, of another store or with pending rows), kOutOfMemory (a pool is exhausted), errors of
  /// the memory; nothing has changed then.
  Result<Reservation> reserve(std::span<const RowsWanted> wanted);

  /// Reads a state written by Checkpoint::write(); must consume the rest of the source. Errors:
  /// kInvalidData (damaged), kUnsupported (of another model, layout or version), kOutOfMemory,
  /// errors of the source; nothing has changed then.
  Result<std::unique_ptr<SequenceState>> read(ByteSource& from);
  /// The same from memory.
  Result<std::unique_ptr<SequenceState>> from_blob(std::span<const uint8_t> blob);

  /// The state of the last image. Each page comes from the deepest of `images` (prefixes of one
  /// another, shortest first) that has it; pages before the first image's are shared with `base`.
  /// Errors: kInvalidData (a missing page, or sizes of another model), kOutOfMemory; nothing has
  /// changed then.
  Result<Checkpoint> assemble(const Checkpoint* base, std::span<const StateImage> images);

 private:
  explicit StateStore(Memory& memory) : StatePools(memory) {}
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_STATE_STORE_H_
