#include "kernels/cuda/page_tables.h"

#include <algorithm>
#include <bit>

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kUpdatePages = {"page_tables", "update_pages"};

/// Address space of the table, in entries: 4 billion positions.
constexpr int32_t kMaxEntries = 1 << 26;
constexpr int32_t kMinCapacity = 16;
/// Lists are kept by sequence key, with the number of the page group in the upper bits.
constexpr int kGroupShift = 56;
/// Lists that are kept for sequences that may come back.
constexpr size_t kMaxLists = 512;

size_t size_class(int32_t capacity) {
  return static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(capacity)));
}

}  // namespace

Result<PageTables> PageTables::create(Device& device) {
  CHIMERE_TRY(std::unique_ptr<MemoryRange> range,
              device.reserve(size_t{kMaxEntries} * sizeof(int32_t)));
  return PageTables(std::move(range));
}

Status PageTables::prepare(const BatchView& batch, bool interleaved) {
  ++step_;
  if (!interleaved) oldest_in_use_ = step_;
  begins_.clear();
  updates_.clear();
  for (size_t at = 0; at < batch.page_begin.size(); ++at) {
    const size_t s = at % static_cast<size_t>(batch.n_sequences);
    const uint64_t group = at / static_cast<size_t>(batch.n_sequences);
    if (batch.page_table.empty()) {  // a model without attention
      begins_.push_back(0);
      continue;
    }
    const auto first_slice = static_cast<size_t>(batch.sequence_slices[s]);
    const auto end_slice = static_cast<size_t>(batch.sequence_slices[s + 1]);
    const Slice& last = batch.slices[end_slice - 1];
    const auto position_of = [&](int32_t row) {
      return batch.row_position[static_cast<size_t>(row)];
    };
    const int32_t full_pages = position_of(batch.slices[first_slice].row_begin) / kKvPageTokens;
    const int32_t n_pages = position_of(last.row_begin + last.row_count - 1) / kKvPageTokens + 1;
    const uint64_t key =
        batch.sequence_keys.empty() ? unnamed_-- : batch.sequence_keys[s] + (group << kGroupShift);
    CHIMERE_TRY(List* const list, list_for(key, n_pages));
    const std::span<const int32_t> pages = batch.page_table.subspan(
        static_cast<size_t>(batch.page_begin[at]), static_cast<size_t>(n_pages));
    for (auto i = static_cast<size_t>(std::min(list->full_pages, full_pages)); i < pages.size();
         ++i) {
      if (i == list->pages.size()) {
        list->pages.push_back(pages[i]);
      } else if (list->pages[i] != pages[i]) {
        list->pages[i] = pages[i];
      } else {
        continue;
      }
      updates_.push_back({list->begin + static_cast<int32_t>(i), pages[i]});
    }
    list->full_pages = full_pages;
    begins_.push_back(list->begin);
  }
  return {};
}

Result<PageTables::List*> PageTables::list_for(uint64_t key, int32_t pages) {
  const auto [at, is_new] = lists_.try_emplace(key);
  List& list = at->second;
  list.last_use = step_;
  if (is_new && lists_.size() > kMaxLists) drop_unused_lists();
  if (list.capacity < pages) CHIMERE_CHECK_OK(reserve(list, pages));
  return &list;
}

Status PageTables::reserve(List& list, int32_t pages) {
  const auto capacity =
      static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(std::max(pages, kMinCapacity))));
  release(list);
  list.capacity = 0;
  list.full_pages = 0;
  list.pages.clear();
  std::vector<int32_t>& free = free_[size_class(capacity)];
  if (!free.empty()) {
    list.begin = free.back();
    free.pop_back();
  } else {
    if (capacity > kMaxEntries - end_) {
      return out_of_memory("the page tables of all sequences are too large for the GPU");
    }
    CHIMERE_CHECK_OK(range_->commit(static_cast<size_t>(end_ + capacity) * sizeof(int32_t)));
    list.begin = end_;
    end_ += capacity;
  }
  list.capacity = capacity;
  return {};
}

void PageTables::release(const List& list) {
  if (list.capacity > 0) free_[size_class(list.capacity)].push_back(list.begin);
}

void PageTables::drop_unused_lists() {
  // Half of them at once, so that a new sequence rarely pays for the search.
  std::vector<uint64_t> uses;
  for (const auto& [key, list] : lists_) uses.push_back(list.last_use);
  std::ranges::nth_element(uses, uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2));
  const uint64_t keep_from = std::min(oldest_in_use_, uses[uses.size() / 2]);
  std::erase_if(lists_, [&](const auto& entry) {
    const bool drop = entry.second.last_use < keep_from;
    if (drop) release(entry.second);
    return drop;
  });
}

void PageTables::apply(Stream& stream, const PageUpdate* updates) const {
  if (updates_.empty()) return;
  const auto count = static_cast<uint32_t>(updates_.size());
  stream.launch(kUpdatePages,
                {.grid = {(count + kPageTablesThreads - 1) / kPageTablesThreads},
                 .block = {kPageTablesThreads}},
                UpdatePagesArgs{reinterpret_cast<int32_t*>(range_->data()), updates,
                                static_cast<int32_t>(count)});
}

void PageTables::forget_step() {
  for (auto& [key, list] : lists_) {
    if (list.last_use == step_) {
      list.pages.clear();
      list.full_pages = 0;
    }
  }
}

}  // namespace chimere::kernels::cuda
