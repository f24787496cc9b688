#include "state/block_pool.h"

#include <limits>
#include <utility>

namespace chimere::state {

Result<BlockPool> BlockPool::create(std::string what, int64_t block_bytes, int64_t max_blocks,
                                    Memory& memory) {
  if (max_blocks > std::numeric_limits<int32_t>::max() ||
      (block_bytes > 0 && max_blocks > std::numeric_limits<int64_t>::max() / block_bytes)) {
    return invalid_argument(std::to_string(max_blocks) + " blocks (" + what +
                            ") are too many; configure fewer");
  }
  BlockPool pool;
  pool.what_ = std::move(what);
  pool.block_bytes_ = block_bytes;
  pool.max_blocks_ = max_blocks;
  CHIMERE_TRY(pool.range_, memory.reserve(static_cast<size_t>(block_bytes * max_blocks)));
  return pool;
}

Result<int32_t> BlockPool::allocate() {
  int32_t block = 0;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (!given_back_.empty()) {
    block = given_back_.back();
    given_back_.pop_back();
  } else {
    const auto n = static_cast<int64_t>(references_.size());
    if (n == max_blocks_) {
      return out_of_memory(
          "all " + std::to_string(max_blocks_) + " blocks (" + what_ +
          ") are in use; drop or evict a sequence, or raise the limit when loading the model");
    }
    CHIMERE_CHECK_OK(range_->commit(static_cast<size_t>((n + 1) * block_bytes_)));
    block = static_cast<int32_t>(n);
    references_.push_back(0);
  }
  references_[static_cast<size_t>(block)] = 1;
  ++in_use_;
  return block;
}

void BlockPool::release(int32_t block) {
  if (--references_[static_cast<size_t>(block)] > 0) return;
  free_.push_back(block);
  --in_use_;
}

bool BlockPool::give_back_one() {
  if (free_.empty()) return false;
  const int32_t block = free_.back();
  const auto bytes = static_cast<size_t>(block_bytes_);
  if (!range_->give_back(static_cast<size_t>(block) * bytes, bytes)) return false;
  free_.pop_back();
  given_back_.push_back(block);
  return true;
}

}  // namespace chimere::state
