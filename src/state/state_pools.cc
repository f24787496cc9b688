#include "state/state_pools.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace chimere::state {

Status StatePools::init(StateSpec spec) {
  CHIMERE_CHECK_OK(validate(spec));
  int64_t page_bytes = 0;
  int64_t slot_bytes = 0;
  int64_t row_bytes = 0;
  for (const ComponentSpec& c : spec.components) {
    int64_t& block_bytes = c.paged() ? page_bytes : slot_bytes;
    offsets_.push_back(block_bytes);
    block_bytes += c.bytes;
    pending_offsets_.push_back(row_bytes);
    row_bytes += c.pending_bytes;
  }
  if (spec.max_bytes > 0) {
    if (page_bytes > 0) spec.max_pages = std::min(spec.max_pages, spec.max_bytes / page_bytes);
    if (slot_bytes > 0) spec.max_slots = std::min(spec.max_slots, spec.max_bytes / slot_bytes);
    if (row_bytes > 0) {
      spec.max_pending_rows = std::min(spec.max_pending_rows, spec.max_bytes / row_bytes);
    }
  }
  CHIMERE_TRY(pages_, BlockPool::create("KV pages", page_bytes, spec.max_pages, memory_));
  CHIMERE_TRY(slots_,
              BlockPool::create("recurrent states", slot_bytes, spec.max_slots + 1, memory_));
  CHIMERE_TRY(row_blocks_,
              BlockPool::create("pending rows", row_bytes, spec.max_pending_rows, memory_));
  CHIMERE_TRY(const int32_t empty, slots_.allocate());
  CHIMERE_CHECK_OK(memory_.clear(slots_.data(empty), static_cast<size_t>(slot_bytes)));
  fingerprint_ = state::fingerprint(spec);
  spec_ = std::move(spec);
  return {};
}

uint8_t* StatePools::component_base(size_t c) {
  BlockPool& pool = spec_.components[c].paged() ? pages_ : slots_;
  return pool.base() + offsets_[c];
}

Result<int32_t> StatePools::allocate(BlockPool& pool) {
  if (spec_.max_bytes > 0 && pool.takes_memory()) {
    const auto fits = [&] { return resident_bytes() + pool.block_bytes() <= spec_.max_bytes; };
    for (BlockPool* other : {&slots_, &pages_, &row_blocks_}) {
      while (other != &pool && !fits() && other->give_back_one()) {
      }
    }
    if (!fits()) {
      return out_of_memory("the states of all requests have reached their limit of " +
                           std::to_string(spec_.max_bytes) +
                           " bytes; allow more (--state-memory), or use a smaller context (--ctx) "
                           "or smaller cache types (--cache-k, --cache-v)");
    }
  }
  return pool.allocate();
}

int64_t StatePools::bytes_left() const {
  if (spec_.max_bytes == 0) return std::numeric_limits<int64_t>::max();
  return spec_.max_bytes - pages_.in_use() * pages_.block_bytes() -
         slots_.in_use() * slots_.block_bytes() - row_blocks_.in_use() * row_blocks_.block_bytes();
}

int64_t StatePools::free_pages(int64_t slots) const {
  const int64_t unused = pages_.max_blocks() - pages_.in_use();
  if (spec_.max_bytes == 0 || !has_pages()) return unused;
  const int64_t bytes = std::max<int64_t>(0, bytes_left() - slots * slots_.block_bytes());
  return std::min(unused, bytes / pages_.block_bytes());
}

int64_t StatePools::free_pending_rows(int64_t slots) const {
  const int64_t unused = row_blocks_.max_blocks() - row_blocks_.in_use();
  if (spec_.max_bytes == 0 || !has_row_blocks()) return unused;
  const int64_t bytes = std::max<int64_t>(0, bytes_left() - slots * slots_.block_bytes());
  return std::min(unused, bytes / row_blocks_.block_bytes());
}

}  // namespace chimere::state
