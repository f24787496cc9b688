#include "state/state_image.h"

#include <algorithm>
#include <string>
#include <utility>

#include "state/state_store.h"

namespace chimere::state {

StateImage Checkpoint::image(int32_t first_page) const {
  StateImage out;
  out.position = position_;
  out.first_page = std::min(first_page, static_cast<int32_t>(pages_.size()));
  Memory& memory = store_->memory_;
  const auto page_bytes = static_cast<size_t>(store_->page_stride());
  const size_t n_pages = pages_.size() - static_cast<size_t>(out.first_page);
  std::vector<uint8_t> pages(n_pages * page_bytes);
  for (size_t i = 0; i < n_pages; ++i) {
    const int32_t page = pages_[static_cast<size_t>(out.first_page) + i];
    const Status done =
        memory.read(pages.data() + i * page_bytes, store_->pages_.data(page), page_bytes);
    if (!done.ok()) return out;
  }
  std::vector<uint8_t> slot;
  const auto slot_bytes = static_cast<size_t>(store_->slot_stride());
  const auto row_bytes = static_cast<size_t>(store_->row_stride());
  if (store_->has_slots() && position_ > 0) {
    slot.resize(slot_bytes + unfolded_.size() * row_bytes);
    uint8_t* to = slot.data();
    if (!memory.read(to, store_->slots_.data(slot_), slot_bytes).ok()) return out;
    to += slot_bytes;
    for (const int32_t row : unfolded_) {
      if (!memory.read(to, store_->row_blocks_.data(row), row_bytes).ok()) return out;
      to += row_bytes;
    }
    out.unfolded = static_cast<int32_t>(unfolded_.size());
  }
  out.pages = std::make_shared<const std::vector<uint8_t>>(std::move(pages));
  out.slot = std::make_shared<const std::vector<uint8_t>>(std::move(slot));
  return out;
}

Result<Checkpoint> StateStore::assemble(const Checkpoint* base,
                                        std::span<const StateImage> images) {
  const auto page_bytes = static_cast<size_t>(page_stride());
  if (images.empty()) return invalid_argument("no image to assemble a state from");
  const StateImage& last = images.back();
  const auto slot_bytes = static_cast<size_t>(has_slots() ? slot_stride() : 0);
  const auto row_bytes = static_cast<size_t>(has_row_blocks() ? row_stride() : 0);
  const bool rows_ok =
      last.unfolded >= 0 && last.unfolded <= last.position && (last.unfolded == 0 || row_bytes > 0);
  if (last.slot == nullptr || last.position < 1 || !rows_ok ||
      last.slot->size() != slot_bytes + static_cast<size_t>(last.unfolded) * row_bytes) {
    return invalid_data("an image has no recurrent state of this model");
  }
  Checkpoint state(*this);  // releases its blocks on an error
  const int64_t n_pages = pages_for(last.position);
  for (int64_t page = 0; page < n_pages; ++page) {
    // The deepest image that has the page: it supersedes a partly filled page of a shorter image.
    const auto image = std::find_if(images.rbegin(), images.rend(),
                                    [&](const StateImage& i) { return i.first_page <= page; });
    if (image == images.rend()) {
      const bool whole = base != nullptr && (page + 1) * spec_.page_tokens <= base->position_;
      if (!whole) return invalid_data("page " + std::to_string(page) + " is in no image");
      const int32_t shared = base->pages_[static_cast<size_t>(page)];
      pages_.add_reference(shared);
      state.pages_.push_back(shared);
      continue;
    }
    const size_t offset = static_cast<size_t>(page - image->first_page) * page_bytes;
    if (image->pages == nullptr || image->pages->size() < offset + page_bytes) {
      return invalid_data("an image has fewer pages than its position says");
    }
    CHIMERE_TRY(const int32_t own, allocate(pages_));
    state.pages_.push_back(own);
    CHIMERE_CHECK_OK(memory_.write(pages_.data(own), image->pages->data() + offset, page_bytes));
  }
  if (has_slots()) {
    const uint8_t* from = last.slot->data();
    if (last.unfolded < last.position) {  // else the rows continue the empty state
      CHIMERE_TRY(const int32_t slot, allocate(slots_));
      slots_.release(std::exchange(state.slot_, slot));
      CHIMERE_CHECK_OK(memory_.write(slots_.data(slot), from, slot_bytes));
    }
    from += slot_bytes;
    for (int32_t i = 0; i < last.unfolded; ++i) {
      CHIMERE_TRY(const int32_t row, allocate(row_blocks_));
      state.unfolded_.push_back(row);
      CHIMERE_CHECK_OK(memory_.write(row_blocks_.data(row), from, row_bytes));
      from += row_bytes;
    }
  }
  state.position_ = last.position;
  return state;
}

}  // namespace chimere::state
