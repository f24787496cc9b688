#include "state/state_store.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace chimere::state {

Result<std::unique_ptr<StateStore>> StateStore::create(StateSpec spec, Memory& memory) {
  CHIMERE_CHECK_OK(validate(spec));
  std::unique_ptr<StateStore> store(new StateStore(memory));
  int64_t page_bytes = 0;
  int64_t slot_bytes = 0;
  int64_t row_bytes = 0;
  for (const ComponentSpec& c : spec.components) {
    int64_t& block_bytes = c.paged() ? page_bytes : slot_bytes;
    store->offsets_.push_back(block_bytes);
    block_bytes += c.bytes;
    store->pending_offsets_.push_back(row_bytes);
    row_bytes += c.pending_bytes;
  }
  if (spec.max_bytes > 0) {
    if (page_bytes > 0) spec.max_pages = std::min(spec.max_pages, spec.max_bytes / page_bytes);
    if (slot_bytes > 0) spec.max_slots = std::min(spec.max_slots, spec.max_bytes / slot_bytes);
    if (row_bytes > 0) {
      spec.max_pending_rows = std::min(spec.max_pending_rows, spec.max_bytes / row_bytes);
    }
  }
  CHIMERE_TRY(store->pages_, BlockPool::create("KV pages", page_bytes, spec.max_pages, memory));
  CHIMERE_TRY(store->slots_,
              BlockPool::create("recurrent states", slot_bytes, spec.max_slots + 1, memory));
  CHIMERE_TRY(store->row_blocks_,
              BlockPool::create("pending rows", row_bytes, spec.max_pending_rows, memory));
  CHIMERE_TRY(const int32_t empty, store->slots_.allocate());
  CHIMERE_CHECK_OK(memory.clear(store->slots_.data(empty), static_cast<size_t>(slot_bytes)));
  store->fingerprint_ = state::fingerprint(spec);
  store->spec_ = std::move(spec);
  return store;
}

std::unique_ptr<SequenceState> StateStore::create_sequence() { return Checkpoint(*this).restore(); }

uint8_t* StateStore::component_base(size_t c) {
  BlockPool& pool = spec_.components[c].paged() ? pages_ : slots_;
  return pool.base() + offsets_[c];
}

Result<int32_t> StateStore::allocate(BlockPool& pool) {
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

int64_t StateStore::bytes_left() const {
  if (spec_.max_bytes == 0) return std::numeric_limits<int64_t>::max();
  return spec_.max_bytes - pages_.in_use() * pages_.block_bytes() -
         slots_.in_use() * slots_.block_bytes() - row_blocks_.in_use() * row_blocks_.block_bytes();
}

int64_t StateStore::free_pages(int64_t slots) const {
  const int64_t unused = pages_.max_blocks() - pages_.in_use();
  if (spec_.max_bytes == 0 || !has_pages()) return unused;
  const int64_t bytes = std::max<int64_t>(0, bytes_left() - slots * slots_.block_bytes());
  return std::min(unused, bytes / pages_.block_bytes());
}

int64_t StateStore::free_slots() const {
  const int64_t unused = slots_.max_blocks() - slots_.in_use();
  if (spec_.max_bytes == 0 || !has_slots()) return unused;
  return std::min(unused, bytes_left() / slots_.block_bytes());
}

int64_t StateStore::free_pending_rows(int64_t slots) const {
  const int64_t unused = row_blocks_.max_blocks() - row_blocks_.in_use();
  if (spec_.max_bytes == 0 || !has_row_blocks()) return unused;
  const int64_t bytes = std::max<int64_t>(0, bytes_left() - slots * slots_.block_bytes());
  return std::min(unused, bytes / row_blocks_.block_bytes());
}

Result<Reservation> StateStore::reserve(std::span<const RowsWanted> wanted) {
  Reservation reservation(*this);
  for (const RowsWanted& w : wanted) CHIMERE_CHECK_OK(reservation.add(w));
  return reservation;
}

Status Reservation::add(const RowsWanted& wanted) {
  SequenceState* sequence = wanted.sequence;
  if (sequence == nullptr || sequence->now_.store_ != store_) {
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
  CHIMERE_CHECK_OK(add_pages(*sequence, wanted.rows));
  CHIMERE_CHECK_OK(add_slots(wanted));
  sequence->reserved_ = true;
  sequence_keys_.push_back(sequence->key());
  wanted_.push_back(wanted);
  return {};
}

Status Reservation::add_pages(const SequenceState& sequence, int32_t rows) {
  const std::vector<int32_t>& pages = sequence.now_.pages_;
  const auto bytes = static_cast<size_t>(store_->page_stride());
  page_begin_.push_back(static_cast<int32_t>(page_table_.size()));
  page_table_.insert(page_table_.end(), pages.begin(), pages.end());
  if (!store_->has_pages()) return {};

  const bool last_is_partial = sequence.position() % store_->spec_.page_tokens != 0;
  if (last_is_partial && store_->pages_.shared(pages.back())) {
    CHIMERE_TRY(const int32_t copy, store_->allocate(store_->pages_));
    new_pages_.push_back(copy);
    CHIMERE_CHECK_OK(
        store_->memory_.copy(store_->pages_.data(copy), store_->pages_.data(pages.back()), bytes));
    page_table_.back() = copy;
  }
  const int64_t needed = store_->pages_for(int64_t{sequence.position()} + rows);
  for (auto have = static_cast<int64_t>(pages.size()); have < needed; ++have) {
    CHIMERE_TRY(const int32_t page, store_->allocate(store_->pages_));
    new_pages_.push_back(page);
    // Stale rows of another sequence must not reach a blob or the unused lanes of a vector.
    CHIMERE_CHECK_OK(store_->memory_.clear(store_->pages_.data(page), bytes));
    page_table_.push_back(page);
  }
  return {};
}

Status Reservation::add_slots(const RowsWanted& wanted) {
  const Checkpoint& now = wanted.sequence->now_;
  const bool folds = !now.unfolded_.empty();
  if (wanted.revocable && store_->has_slots() && !store_->has_row_blocks()) {
    return invalid_argument("this model's rows cannot be taken back");
  }
  fold_rows_.insert(fold_rows_.end(), now.unfolded_.begin(), now.unfolded_.end());
  fold_begin_.push_back(static_cast<int32_t>(fold_rows_.size()));
  fold_from_.push_back(folds ? now.slot_ : -1);

  const bool advances = store_->has_slots() && !wanted.scratch && !wanted.revocable;
  int32_t slot = now.slot_;
  if (wanted.scratch) {
    slot = folds ? -1 : slot;
  } else if ((folds || advances) && store_->slots_.shared(slot)) {
    CHIMERE_TRY(slot, store_->allocate(store_->slots_));
    new_slots_.push_back(slot);
  }
  // Without rows to fold, the state before the first row stays where it is.
  read_slots_.push_back(folds ? slot : now.slot_);
  for (int32_t row = 0; row < wanted.rows; ++row) {
    write_slots_.push_back(advances && row == wanted.rows - 1 ? slot : -1);
    keep_rows_.push_back(-1);
    if (!wanted.revocable || !store_->has_row_blocks()) continue;
    CHIMERE_TRY(keep_rows_.back(), store_->allocate(store_->row_blocks_));
    new_row_blocks_.push_back(keep_rows_.back());
  }
  return {};
}

void Reservation::apply() {
  size_t row_begin = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const RowsWanted& w = wanted_[i];
    Checkpoint& now = w.sequence->now_;

    const auto list_begin = page_table_.begin() + page_begin_[i];
    const auto list_end =
        i + 1 < page_begin_.size() ? page_table_.begin() + page_begin_[i + 1] : page_table_.end();
    if (!now.pages_.empty()) {
      const auto last = static_cast<std::ptrdiff_t>(now.pages_.size()) - 1;
      if (now.pages_.back() != list_begin[last]) store_->pages_.release(now.pages_.back());
    }
    now.pages_.assign(list_begin, list_end);

    const auto rows = static_cast<size_t>(w.rows);
    // Rows were folded into the slot that the step reads, and were advanced in the one that its
    // last row writes: the same, if both happened.
    const int32_t advanced = write_slots_[row_begin + rows - 1];
    const int32_t slot = advanced >= 0 ? advanced : read_slots_[i];
    if (slot != now.slot_) store_->slots_.release(std::exchange(now.slot_, slot));
    for (const int32_t row : now.unfolded_) store_->row_blocks_.release(row);
    now.unfolded_.clear();
    if (w.revocable) {
      w.sequence->pending_rows_ = w.rows;
      if (store_->has_row_blocks()) {
        const auto keep = keep_rows_.begin() + static_cast<std::ptrdiff_t>(row_begin);
        w.sequence->pending_.assign(keep, keep + w.rows);
      }
    } else {
      now.position_ += w.rows;
    }
    row_begin += rows;
    w.sequence->reserved_ = false;
  }
  wanted_.clear();
  new_pages_.clear();
  new_slots_.clear();
  new_row_blocks_.clear();
}

Reservation::~Reservation() {
  for (const RowsWanted& w : wanted_) w.sequence->reserved_ = false;
  for (int32_t page : new_pages_) store_->pages_.release(page);
  for (int32_t slot : new_slots_) store_->slots_.release(slot);
  for (int32_t row : new_row_blocks_) store_->row_blocks_.release(row);
}

}  // namespace chimere::state
