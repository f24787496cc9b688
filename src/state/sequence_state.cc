#include "state/sequence_state.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "state/state_store.h"

namespace chimere::state {

Checkpoint::Checkpoint(StateStore& store) : store_(&store) { store.slots_.add_reference(slot_); }

Checkpoint::Checkpoint(const Checkpoint& other)
    : store_(other.store_),
      position_(other.position_),
      slot_(other.slot_),
      unfolded_(other.unfolded_),
      pages_(other.pages_) {
  store_->slots_.add_reference(slot_);
  for (int32_t row : unfolded_) store_->row_blocks_.add_reference(row);
  for (int32_t page : pages_) store_->pages_.add_reference(page);
}

Checkpoint::Checkpoint(Checkpoint&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)),
      position_(other.position_),
      slot_(other.slot_),
      unfolded_(std::move(other.unfolded_)),
      pages_(std::move(other.pages_)) {}

Checkpoint& Checkpoint::operator=(Checkpoint other) noexcept {
  std::swap(store_, other.store_);
  std::swap(position_, other.position_);
  std::swap(slot_, other.slot_);
  std::swap(unfolded_, other.unfolded_);
  std::swap(pages_, other.pages_);
  return *this;
}

Checkpoint::~Checkpoint() {
  if (store_ == nullptr) return;  // moved from
  store_->slots_.release(slot_);
  for (int32_t row : unfolded_) store_->row_blocks_.release(row);
  for (int32_t page : pages_) store_->pages_.release(page);
}

std::unique_ptr<SequenceState> Checkpoint::restore() const {
  return std::unique_ptr<SequenceState>(new SequenceState(*this));
}

SequenceState::SequenceState(Checkpoint from) : now_(std::move(from)) {
  static std::atomic<uint64_t> last_key = 0;
  key_ = last_key.fetch_add(1, std::memory_order_relaxed) + 1;
}

SequenceState::~SequenceState() {
  for (int32_t row : pending_) now_.store_->row_blocks_.release(row);
}

Status SequenceState::commit(int32_t rows) {
  if (rows < 0 || rows > pending_rows_) {
    return invalid_argument("cannot keep " + std::to_string(rows) +
                            " rows: " + std::to_string(pending_rows_) + " are pending");
  }
  now_.position_ += rows;
  pending_rows_ = 0;
  // The step has folded what was unfolded before it.
  const auto kept = std::min(static_cast<size_t>(rows), pending_.size());
  for (size_t i = kept; i < pending_.size(); ++i) now_.store_->row_blocks_.release(pending_[i]);
  pending_.resize(kept);
  now_.unfolded_.insert(now_.unfolded_.end(), pending_.begin(), pending_.end());
  pending_.clear();
  now_.release_pages_beyond_position();
  return {};
}

Checkpoint SequenceState::checkpoint() const {
  Checkpoint snapshot = now_;
  snapshot.release_pages_beyond_position();
  return snapshot;
}

void Checkpoint::release_pages_beyond_position() {
  const auto used = static_cast<size_t>(store_->pages_for(position_));
  for (; pages_.size() > used; pages_.pop_back()) store_->pages_.release(pages_.back());
}

}  // namespace chimere::state
