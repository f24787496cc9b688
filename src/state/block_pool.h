// A bounded pool of equal, reference-counted blocks, named by small numbers.
#ifndef CHIMERE_STATE_BLOCK_POOL_H_
#define CHIMERE_STATE_BLOCK_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/memory.h"

namespace chimere::state {

/// Blocks are contiguous at a fixed base address and are backed by memory when first allocated. A
/// released block keeps its memory for the next one, until give_back_one(). Not thread-safe.
class BlockPool {
 public:
  BlockPool() = default;

  /// `what` names a block in error messages ("KV page"). block_bytes must be a multiple of 64.
  static Result<BlockPool> create(std::string what, int64_t block_bytes, int64_t max_blocks,
                                  Memory& memory);

  /// Returns a block with one reference and unspecified contents. Errors: kOutOfMemory if all are
  /// in use or the system has no memory; nothing changes then.
  Result<int32_t> allocate();
  /// Whether the next allocate() needs memory that the pool does not hold yet.
  bool takes_memory() const { return free_.empty(); }
  /// Releases the memory of one unused block. False if no unused block has memory, or the back end
  /// cannot release it.
  bool give_back_one();
  void add_reference(int32_t block) { ++references_[static_cast<size_t>(block)]; }
  void release(int32_t block);
  bool shared(int32_t block) const { return references_[static_cast<size_t>(block)] > 1; }

  /// An address in the Memory given to create().
  uint8_t* data(int32_t block) const { return base() + block * block_bytes_; }
  uint8_t* base() const { return range_->data(); }
  int64_t block_bytes() const { return block_bytes_; }
  int64_t in_use() const { return in_use_; }
  /// Memory of the blocks in use and of the unused blocks that still have memory.
  int64_t resident_bytes() const {
    return (in_use_ + static_cast<int64_t>(free_.size())) * block_bytes_;
  }
  int64_t max_blocks() const { return max_blocks_; }

 private:
  std::string what_;
  int64_t block_bytes_ = 0;
  int64_t max_blocks_ = 0;
  int64_t in_use_ = 0;
  std::unique_ptr<MemoryRange> range_;
  std::vector<int32_t> references_;  ///< [every block ever allocated] reference count
  std::vector<int32_t> free_;        ///< unused blocks that have memory; last in, first out
  std::vector<int32_t> given_back_;  ///< unused blocks whose memory was released
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_BLOCK_POOL_H_
