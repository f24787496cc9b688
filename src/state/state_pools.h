// The memory that holds the states of all sequences of a model.
#ifndef CHIMERE_STATE_STATE_POOLS_H_
#define CHIMERE_STATE_STATE_POOLS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "state/block_pool.h"
#include "state/spec.h"
#include "tensor/memory.h"

namespace chimere::state {

/// The pools of one model. One page number stands for `page_tokens` positions in all attention
/// layers without a window, or in all with the same window (a page group), one slot number for the
/// convolution and recurrent states of all recurrent layers, one row block number for what a
/// pending row keeps in all of these. Memory is committed when a block is first used, so a large
/// limit costs no memory. StateSpec::max_bytes bounds the memory of the pools together; one pool
/// can use what the others have released, if the back end can release memory. Not thread-safe.
class StatePools {
 public:
  StatePools(const StatePools&) = delete;
  StatePools& operator=(const StatePools&) = delete;

  const StateSpec& spec() const { return spec_; }
  uint64_t fingerprint() const { return fingerprint_; }

  /// The memory that holds the states.
  Memory& memory() const { return memory_; }
  /// Address of component c in page (or slot) 0; in block i it is i * component_stride(c) bytes
  /// higher.
  uint8_t* component_base(size_t c);
  int64_t component_stride(size_t c) const;
  /// The page group of component c: 0 without a window.
  int32_t page_group(size_t c) const;
  /// Of page group 0.
  int64_t page_stride() const { return pages_.block_bytes(); }
  int64_t slot_stride() const { return slots_.block_bytes(); }
  /// Address of what a pending row keeps for component c (not kPagedKv) in row block 0; in block i
  /// it is i * row_stride() bytes higher.
  uint8_t* pending_base(size_t c) { return row_blocks_.base() + pending_offsets_[c]; }
  int64_t row_stride() const { return row_blocks_.block_bytes(); }

  /// KV bytes per position, over all layers without a window; pages are allocated whole.
  int64_t bytes_per_token() const { return pages_.block_bytes() / spec_.page_tokens; }
  /// Bytes of what does not grow with a sequence, over all layers: its recurrent state, and the KV
  /// of layers with a window (an upper bound).
  int64_t bytes_per_slot() const;
  /// Each window of the layers, and the bytes of its pages.
  std::vector<std::pair<int, int64_t>> windows() const;
  /// Bytes of the KV of layers with a window after `position` tokens.
  int64_t window_bytes(int64_t position) const;
  /// Bytes that a pending row keeps, over all layers.
  int64_t bytes_per_pending_row() const { return row_blocks_.block_bytes(); }

  /// Pages that can still be allocated if memory for `slots` slots is reserved.
  int64_t free_pages(int64_t slots) const;
  /// Row blocks that can still be allocated if memory for `slots` slots is reserved.
  int64_t free_pending_rows(int64_t slots) const;
  /// Committed memory of the pools, in use or kept for later blocks, and its limit (0: only the
  /// sizes of the pools limit it).
  int64_t resident_bytes() const;
  int64_t max_bytes() const { return spec_.max_bytes; }

  int64_t pages_in_use() const { return pages_.in_use(); }
  /// Of all page groups with a window.
  int64_t window_pages_in_use() const;
  int64_t max_pages() const { return pages_.max_blocks(); }
  /// Excludes the shared empty state.
  int64_t slots_in_use() const { return slots_.in_use() - 1; }
  int64_t max_slots() const { return slots_.max_blocks() - 1; }
  int64_t pending_rows_in_use() const { return row_blocks_.in_use(); }
  int64_t max_pending_rows() const { return row_blocks_.max_blocks(); }

 protected:
  explicit StatePools(Memory& memory) : memory_(memory) {}
  ~StatePools() = default;

  /// Makes the pools. Errors: kInvalidArgument (spec), kOutOfMemory (address space).
  Status init(StateSpec spec);

  /// Allocates a block of one of the pools. Errors: those of BlockPool::allocate(), and
  /// kOutOfMemory at StateSpec::max_bytes.
  Result<int32_t> allocate(BlockPool& pool);
  int64_t bytes_left() const;
  int64_t unused_bytes(int64_t slots) const;

  bool has_pages() const { return pages_.block_bytes() > 0; }
  bool has_slots() const { return slots_.block_bytes() > 0; }
  bool has_row_blocks() const { return row_blocks_.block_bytes() > 0; }
  int64_t pages_for(int64_t positions) const {
    return has_pages() ? (positions + spec_.page_tokens - 1) / spec_.page_tokens : 0;
  }

  int64_t window_pages_for(int64_t positions) const {
    return (positions + spec_.page_tokens - 1) / spec_.page_tokens;
  }

  Memory& memory_;
  StateSpec spec_;
  uint64_t fingerprint_ = 0;
  std::vector<int64_t> offsets_;          ///< [components] of the piece within its block
  std::vector<int64_t> pending_offsets_;  ///< [components] within a row block
  BlockPool pages_;
  /// The pages of layers with a window, one pool for each size of window.
  struct WindowPool {
    int window = 0;
    BlockPool pages;
  };
  std::vector<WindowPool> windows_;
  /// Slot 0 is the empty state: all zeros, shared by all new sequences, never written.
  BlockPool slots_;
  BlockPool row_blocks_;

 private:
  friend class Checkpoint;
  friend class SequenceState;
  friend class Reservation;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_STATE_POOLS_H_
