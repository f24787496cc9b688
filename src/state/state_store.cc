#include "state/state_store.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace chimere::state {

Result<std::unique_ptr<StateStore>> StateStore::create(StateSpec spec, Memory& memory) {
  std::unique_ptr<StateStore> store(new StateStore(memory));
  CHIMERE_CHECK_OK(store->init(std::move(spec)));
  return store;
}

std::unique_ptr<SequenceState> StateStore::create_sequence() { return Checkpoint(*this).restore(); }

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
      last.slot->size() != slot_bytes + static_cast<size_t>(last.unfolded) * row_bytes +
                               static_cast<size_t>(window_bytes(last.position))) {
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
  const uint8_t* from = last.slot->data() + last.slot->size() - window_bytes(last.position);
  CHIMERE_CHECK_OK(state.allocate_windows(last.position));
  for (size_t g = 0; g < windows_.size(); ++g) {
    const Checkpoint::WindowPages& w = state.windows_[g];
    const BlockPool& pool = windows_[g].pages;
    for (size_t i = w.behind; i < w.pages.size(); ++i, from += pool.block_bytes()) {
      CHIMERE_CHECK_OK(
          memory_.write(pool.data(w.pages[i]), from, static_cast<size_t>(pool.block_bytes())));
    }
  }
  state.position_ = last.position;
  return state;
}

Result<Reservation> StateStore::reserve(std::span<const RowsWanted> wanted) {
  Reservation reservation(*this);
  for (const RowsWanted& w : wanted) CHIMERE_CHECK_OK(reservation.add(w));
  reservation.append_window_tables();
  return reservation;
}

Status Reservation::add(const RowsWanted& wanted) {
  SequenceState* sequence = wanted.sequence;
  if (sequence == nullptr || sequence->now_.pools_ != pools_) {
    return invalid_argument("a sequence of the step does not belong to this model");
  }
  if (sequence->reserved_) return invalid_argument("a sequence occurs twice in one step");
  if (sequence->pending_rows_ > 0) {
    return invalid_argument("a sequence has " + std::to_string(sequence->pending_rows_) +
                            " pending rows; commit() them before its next step");
  }
  if (wanted.rows < 1 || wanted.rows > std::numeric_limits<int32_t>::max() - sequence->position()) {
    return invalid_argument("a sequence at position " + std::to_string(sequence->position()) +
                            " cannot take " + std::to_string(wanted.rows) + " rows");
  }
  page_begin_.push_back(static_cast<int32_t>(page_table_.size()));
  CHIMERE_CHECK_OK(add_pages(*sequence, wanted.rows, 0, page_table_));
  for (size_t g = 0; g < window_tables_.size(); ++g) {
    WindowTable& of = window_tables_[g];
    CHIMERE_CHECK_OK(add_pages(*sequence, wanted.rows, g + 1, of.pages));
    of.begin.push_back(static_cast<int32_t>(of.pages.size()));
  }
  CHIMERE_CHECK_OK(add_slots(wanted));
  sequence->reserved_ = true;
  sequence_keys_.push_back(sequence->key());
  wanted_.push_back(wanted);
  return {};
}

Reservation::Reservation(StatePools& pools)
    : pools_(&pools),
      new_pages_(pools.windows_.size() + 1),
      window_tables_(pools.windows_.size()) {}

BlockPool& Reservation::page_pool(size_t group) {
  return group == 0 ? pools_->pages_ : pools_->windows_[group - 1].pages;
}

Status Reservation::add_pages(const SequenceState& sequence, int32_t rows, size_t group,
                              std::vector<int32_t>& table) {
  const Checkpoint& now = sequence.now_;
  const std::vector<int32_t>& pages = group == 0 ? now.pages_ : now.windows_[group - 1].pages;
  BlockPool& pool = page_pool(group);
  const auto bytes = static_cast<size_t>(pool.block_bytes());
  table.insert(table.end(), pages.begin(), pages.end());
  const int64_t needed = pools_->window_pages_for(int64_t{sequence.position()} + rows);
  if (bytes == 0) {
    // A model of layers with windows alone still has a list for group 0.
    if (!pools_->windows_.empty()) table.insert(table.end(), static_cast<size_t>(needed), 0);
    return {};
  }
  const bool last_is_partial = sequence.position() % pools_->spec_.page_tokens != 0;
  if (last_is_partial && pool.shared(pages.back())) {
    CHIMERE_TRY(const int32_t copy, pools_->allocate(pool));
    new_pages_[group].push_back(copy);
    CHIMERE_CHECK_OK(pools_->memory_.copy(pool.data(copy), pool.data(pages.back()), bytes));
    table.back() = copy;
  }
  for (auto have = static_cast<int64_t>(pages.size()); have < needed; ++have) {
    CHIMERE_TRY(const int32_t page, pools_->allocate(pool));
    new_pages_[group].push_back(page);
    // Stale rows of another sequence must not reach a blob or the unused lanes of a vector.
    CHIMERE_CHECK_OK(pools_->memory_.clear(pool.data(page), bytes));
    table.push_back(page);
  }
  return {};
}

void Reservation::append_window_tables() {
  for (const WindowTable& of : window_tables_) {
    const auto first = static_cast<int32_t>(page_table_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) page_begin_.push_back(first + of.begin[i]);
    page_table_.insert(page_table_.end(), of.pages.begin(), of.pages.end());
  }
}

Status Reservation::add_slots(const RowsWanted& wanted) {
  const Checkpoint& now = wanted.sequence->now_;
  const bool folds = !now.unfolded_.empty();
  if (wanted.revocable && pools_->has_slots() && !pools_->has_row_blocks()) {
    return invalid_argument("this model's rows cannot be taken back");
  }
  fold_rows_.insert(fold_rows_.end(), now.unfolded_.begin(), now.unfolded_.end());
  fold_begin_.push_back(static_cast<int32_t>(fold_rows_.size()));
  fold_from_.push_back(folds ? now.slot_ : -1);

  const bool advances = pools_->has_slots() && !wanted.scratch && !wanted.revocable;
  int32_t slot = now.slot_;
  if (wanted.scratch) {
    slot = folds ? -1 : slot;
  } else if ((folds || advances) && pools_->slots_.shared(slot)) {
    CHIMERE_TRY(slot, pools_->allocate(pools_->slots_));
    new_slots_.push_back(slot);
  }
  // Without rows to fold, the state before the first row stays where it is.
  read_slots_.push_back(folds ? slot : now.slot_);
  for (int32_t row = 0; row < wanted.rows; ++row) {
    write_slots_.push_back(advances && row == wanted.rows - 1 ? slot : -1);
    keep_rows_.push_back(-1);
    if (!wanted.revocable || !pools_->has_row_blocks()) continue;
    CHIMERE_TRY(keep_rows_.back(), pools_->allocate(pools_->row_blocks_));
    new_row_blocks_.push_back(keep_rows_.back());
  }
  return {};
}

void Reservation::apply() {
  size_t row_begin = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const RowsWanted& w = wanted_[i];
    Checkpoint& now = w.sequence->now_;

    const auto take_list = [](std::span<const int32_t> list, size_t behind, BlockPool& pool,
                              std::vector<int32_t>& pages) {
      if (pages.size() > behind && pages.back() != list[pages.size() - 1]) {
        pool.release(pages.back());
      }
      pages.assign(list.begin(), list.end());
    };
    if (pools_->has_pages()) {
      const auto begin = static_cast<size_t>(page_begin_[i]);
      const auto end =
          i + 1 < page_begin_.size() ? static_cast<size_t>(page_begin_[i + 1]) : page_table_.size();
      take_list(std::span(page_table_).subspan(begin, end - begin), 0, pools_->pages_, now.pages_);
    }
    for (size_t g = 0; g < window_tables_.size(); ++g) {
      const WindowTable& of = window_tables_[g];
      const auto begin = static_cast<size_t>(of.begin[i]);
      const auto size = static_cast<size_t>(of.begin[i + 1]) - begin;
      take_list(std::span(of.pages).subspan(begin, size), now.windows_[g].behind,
                pools_->windows_[g].pages, now.windows_[g].pages);
    }

    const auto rows = static_cast<size_t>(w.rows);
    // Rows were folded into the slot that the step reads, and were advanced in the one that its
    // last row writes: the same, if both happened.
    const int32_t advanced = write_slots_[row_begin + rows - 1];
    const int32_t slot = advanced >= 0 ? advanced : read_slots_[i];
    if (slot != now.slot_) pools_->slots_.release(std::exchange(now.slot_, slot));
    for (const int32_t row : now.unfolded_) pools_->row_blocks_.release(row);
    now.unfolded_.clear();
    if (w.revocable) {
      w.sequence->pending_rows_ = w.rows;
      if (pools_->has_row_blocks()) {
        const auto keep = keep_rows_.begin() + static_cast<std::ptrdiff_t>(row_begin);
        w.sequence->pending_.assign(keep, keep + w.rows);
      }
    } else {
      now.position_ += w.rows;
      now.release_pages_behind_windows();
    }
    row_begin += rows;
    w.sequence->reserved_ = false;
  }
  wanted_.clear();
  for (std::vector<int32_t>& pages : new_pages_) pages.clear();
  new_slots_.clear();
  new_row_blocks_.clear();
}

Reservation::~Reservation() {
  for (const RowsWanted& w : wanted_) w.sequence->reserved_ = false;
  for (size_t group = 0; group < new_pages_.size(); ++group) {
    for (int32_t page : new_pages_[group]) page_pool(group).release(page);
  }
  for (int32_t slot : new_slots_) pools_->slots_.release(slot);
  for (int32_t row : new_row_blocks_) pools_->row_blocks_.release(row);
}

}  // namespace chimere::state
