#include "state/state_pools.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace chimere::state {

namespace {

/// The bytes of the window's pages so far.
int64_t& bytes_of(std::vector<std::pair<int, int64_t>>& windows, int window) {
  const auto found = std::ranges::find(windows, window, &std::pair<int, int64_t>::first);
  return found != windows.end() ? found->second : windows.emplace_back(window, 0).second;
}

/// Upper bound for the pages of one state in a layer with a window: with the rows of a step of some
/// chunks before they are behind the window.
int64_t window_pages_of_state(int window, int page_tokens) {
  constexpr int kStepRows = 512;
  return (window + kStepRows) / page_tokens + 2;
}

}  // namespace

Status StatePools::init(StateSpec spec) {
  CHIMERE_CHECK_OK(validate(spec));
  int64_t page_bytes = 0;
  int64_t slot_bytes = 0;
  int64_t row_bytes = 0;
  std::vector<std::pair<int, int64_t>> windows;  // and the bytes of their pages
  for (const ComponentSpec& c : spec.components) {
    int64_t& block_bytes = c.window > 0 ? bytes_of(windows, c.window)
                           : c.paged()  ? page_bytes
                                        : slot_bytes;
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
  for (const auto& [window, bytes] : windows) {
    // States that share pages of layers without a window may each have their own of these.
    int64_t most =
        spec.max_pages + spec.max_slots * pages_in_window(0xFFFF, window, spec.page_tokens);
    if (spec.max_window_states > 0) {
      most =
          std::min(most, spec.max_window_states * window_pages_of_state(window, spec.page_tokens));
    }
    if (spec.max_bytes > 0) most = std::min(most, spec.max_bytes / bytes);
    CHIMERE_TRY(BlockPool pages,
                BlockPool::create("KV pages of layers with a window", bytes, most, memory_));
    windows_.push_back({window, std::move(pages)});
  }
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
  if (const int32_t group = page_group(c); group > 0) {
    return windows_[static_cast<size_t>(group) - 1].pages.base() + offsets_[c];
  }
  BlockPool& pool = spec_.components[c].paged() ? pages_ : slots_;
  return pool.base() + offsets_[c];
}

int64_t StatePools::component_stride(size_t c) const {
  if (const int32_t group = page_group(c); group > 0) {
    return windows_[static_cast<size_t>(group) - 1].pages.block_bytes();
  }
  return spec_.components[c].paged() ? page_stride() : slot_stride();
}

int32_t StatePools::page_group(size_t c) const {
  const auto found = std::ranges::find(windows_, spec_.components[c].window, &WindowPool::window);
  return found == windows_.end() ? 0 : static_cast<int32_t>(found - windows_.begin()) + 1;
}

int64_t StatePools::bytes_per_slot() const {
  int64_t bytes = slots_.block_bytes();
  for (const WindowPool& w : windows_) {
    bytes += window_pages_of_state(w.window, spec_.page_tokens) * w.pages.block_bytes();
  }
  return bytes;
}

std::vector<std::pair<int, int64_t>> StatePools::windows() const {
  std::vector<std::pair<int, int64_t>> all;
  for (const WindowPool& w : windows_) all.emplace_back(w.window, w.pages.block_bytes());
  return all;
}

int64_t StatePools::window_bytes(int64_t position) const {
  int64_t bytes = 0;
  for (const WindowPool& w : windows_) {
    bytes += pages_in_window(position, w.window, spec_.page_tokens) * w.pages.block_bytes();
  }
  return bytes;
}

int64_t StatePools::window_pages_in_use() const {
  int64_t pages = 0;
  for (const WindowPool& w : windows_) pages += w.pages.in_use();
  return pages;
}

int64_t StatePools::resident_bytes() const {
  int64_t bytes = pages_.resident_bytes() + slots_.resident_bytes() + row_blocks_.resident_bytes();
  for (const WindowPool& w : windows_) bytes += w.pages.resident_bytes();
  return bytes;
}

Result<int32_t> StatePools::allocate(BlockPool& pool) {
  if (spec_.max_bytes > 0 && pool.takes_memory()) {
    const auto fits = [&] { return resident_bytes() + pool.block_bytes() <= spec_.max_bytes; };
    std::vector<BlockPool*> others = {&slots_, &pages_, &row_blocks_};
    for (WindowPool& w : windows_) others.push_back(&w.pages);
    for (BlockPool* other : others) {
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
  int64_t left = spec_.max_bytes;
  const auto take = [&](const BlockPool& pool) { left -= pool.in_use() * pool.block_bytes(); };
  for (const BlockPool* pool : {&pages_, &slots_, &row_blocks_}) take(*pool);
  for (const WindowPool& w : windows_) take(w.pages);
  return left;
}

int64_t StatePools::unused_bytes(int64_t slots) const {
  return std::max<int64_t>(0, bytes_left() - slots * bytes_per_slot());
}

int64_t StatePools::free_pages(int64_t slots) const {
  const int64_t unused = pages_.max_blocks() - pages_.in_use();
  if (spec_.max_bytes == 0 || !has_pages()) return unused;
  const int64_t bytes = unused_bytes(slots);
  return std::min(unused, bytes / pages_.block_bytes());
}

int64_t StatePools::free_pending_rows(int64_t slots) const {
  const int64_t unused = row_blocks_.max_blocks() - row_blocks_.in_use();
  if (spec_.max_bytes == 0 || !has_row_blocks()) return unused;
  const int64_t bytes = unused_bytes(slots);
  return std::min(unused, bytes / row_blocks_.block_bytes());
}

}  // namespace chimere::state
