// The pools that hold the states of all sequences of a model, and the blocks that a step takes from
// them.
#ifndef CHIMERE_STATE_STATE_STORE_H_
#define CHIMERE_STATE_STATE_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "state/block_pool.h"
#include "state/sequence_state.h"
#include "state/spec.h"
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
  /// The sequences' page lists, concatenated, each including pages for its new rows.
  std::span<const int32_t> page_table() const { return page_table_; }
  /// [n_sequences] start of each sequence's list in page_table().
  std::span<const int32_t> page_begin() const { return page_begin_; }
  /// [n_sequences] SequenceState::key().
  std::span<const uint64_t> sequence_keys() const { return sequence_keys_; }

 private:
  friend class StateStore;
  explicit Reservation(StateStore& store) : store_(&store) {}

  Status add(const RowsWanted& wanted);
  Status add_pages(const SequenceState& sequence, int32_t rows);
  Status add_slots(const RowsWanted& wanted);

  StateStore* store_;
  std::vector<RowsWanted> wanted_;
  std::vector<int32_t> new_pages_;  ///< not yet referenced by a sequence
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

/// The pools of one model. One page number stands for `page_tokens` positions in all attention
/// layers, one slot number for the convolution and recurrent states of all recurrent layers, one
/// row block number for what a pending row keeps in all of these. Memory is committed when a block
/// is first used, so a large limit costs no memory. StateSpec::max_bytes bounds the memory of the
/// pools together; one pool can use what the others have released, if the back end can release
/// memory. Must outlive its sequences and checkpoints. Not thread-safe.
class StateStore {
 public:
  /// `memory` holds the states and must outlive the store. Errors: kInvalidArgument (spec),
  /// kOutOfMemory (address space).
  static Result<std::unique_ptr<StateStore>> create(StateSpec spec, Memory& memory = host_memory());
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

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

  const StateSpec& spec() const { return spec_; }
  uint64_t fingerprint() const { return fingerprint_; }

  /// The memory that holds the states.
  Memory& memory() const { return memory_; }
  /// Address of component c in page (or slot) 0; in block i it is i * stride bytes higher.
  uint8_t* component_base(size_t c);
  int64_t page_stride() const { return pages_.block_bytes(); }
  int64_t slot_stride() const { return slots_.block_bytes(); }
  /// Address of what a pending row keeps for component c (not kPagedKv) in row block 0; in block i
  /// it is i * row_stride() bytes higher.
  uint8_t* pending_base(size_t c) { return row_blocks_.base() + pending_offsets_[c]; }
  int64_t row_stride() const { return row_blocks_.block_bytes(); }

  /// KV bytes per position, over all layers; pages are allocated whole.
  int64_t bytes_per_token() const { return pages_.block_bytes() / spec_.page_tokens; }
  /// Bytes of the recurrent state of one sequence, over all layers.
  int64_t bytes_per_slot() const { return slots_.block_bytes(); }
  /// Bytes that a pending row keeps, over all layers.
  int64_t bytes_per_pending_row() const { return row_blocks_.block_bytes(); }

  /// Pages that can still be allocated if memory for `slots` slots is reserved.
  int64_t free_pages(int64_t slots) const;
  /// Slots that can still be allocated.
  int64_t free_slots() const;
  /// Row blocks that can still be allocated if memory for `slots` slots is reserved.
  int64_t free_pending_rows(int64_t slots) const;
  /// Committed memory of the pools, in use or kept for later blocks, and its limit (0: only the
  /// sizes of the pools limit it).
  int64_t resident_bytes() const {
    return pages_.resident_bytes() + slots_.resident_bytes() + row_blocks_.resident_bytes();
  }
  int64_t max_bytes() const { return spec_.max_bytes; }

  int64_t pages_in_use() const { return pages_.in_use(); }
  int64_t max_pages() const { return pages_.max_blocks(); }
  /// Excludes the shared empty state.
  int64_t slots_in_use() const { return slots_.in_use() - 1; }
  int64_t max_slots() const { return slots_.max_blocks() - 1; }
  int64_t pending_rows_in_use() const { return row_blocks_.in_use(); }
  int64_t max_pending_rows() const { return row_blocks_.max_blocks(); }

 private:
  friend class Checkpoint;
  friend class SequenceState;
  friend class Reservation;
  explicit StateStore(Memory& memory) : memory_(memory) {}

  /// Allocates a block of one of the pools. Errors: those of BlockPool::allocate(), and
  /// kOutOfMemory at StateSpec::max_bytes.
  Result<int32_t> allocate(BlockPool& pool);
  int64_t bytes_left() const;

  bool has_pages() const { return pages_.block_bytes() > 0; }
  bool has_slots() const { return slots_.block_bytes() > 0; }
  bool has_row_blocks() const { return row_blocks_.block_bytes() > 0; }
  int64_t pages_for(int64_t positions) const {
    return has_pages() ? (positions + spec_.page_tokens - 1) / spec_.page_tokens : 0;
  }

  Memory& memory_;
  StateSpec spec_;
  uint64_t fingerprint_ = 0;
  std::vector<int64_t> offsets_;          ///< [components] of the piece within its block
  std::vector<int64_t> pending_offsets_;  ///< [components] within a row block
  BlockPool pages_;
  BlockPool
      slots_;  ///< slot 0 is the empty state: all zeros, shared by all new sequences, never written
  BlockPool row_blocks_;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_STATE_STORE_H_
