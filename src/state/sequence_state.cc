#include "state/sequence_state.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "state/state_pools.h"

namespace chimere::state {

Checkpoint::Checkpoint(StatePools& pools) : pools_(&pools), windows_(pools.windows_.size()) {
  pools.slots_.add_reference(slot_);
}

int Checkpoint::window(size_t group) const { return pools_->windows_[group].window; }

Checkpoint::Checkpoint(const Checkpoint& other)
    : pools_(other.pools_),
      position_(other.position_),
      slot_(other.slot_),
      unfolded_(other.unfolded_),
      pages_(other.pages_),
      windows_(other.windows_) {
  pools_->slots_.add_reference(slot_);
  for (int32_t row : unfolded_) pools_->row_blocks_.add_reference(row);
  for (int32_t page : pages_) pools_->pages_.add_reference(page);
  for (size_t g = 0; g < windows_.size(); ++g) {
    const WindowPages& w = windows_[g];
    for (size_t i = w.behind; i < w.pages.size(); ++i) {
      pools_->windows_[g].pages.add_reference(w.pages[i]);
    }
  }
}

Checkpoint::Checkpoint(Checkpoint&& other) noexcept
    : pools_(std::exchange(other.pools_, nullptr)),
      position_(other.position_),
      slot_(other.slot_),
      unfolded_(std::move(other.unfolded_)),
      pages_(std::move(other.pages_)),
      windows_(std::move(other.windows_)) {}

Checkpoint& Checkpoint::operator=(Checkpoint other) noexcept {
  std::swap(pools_, other.pools_);
  std::swap(position_, other.position_);
  std::swap(slot_, other.slot_);
  std::swap(unfolded_, other.unfolded_);
  std::swap(pages_, other.pages_);
  std::swap(windows_, other.windows_);
  return *this;
}

Checkpoint::~Checkpoint() {
  if (pools_ == nullptr) return;  // moved from
  pools_->slots_.release(slot_);
  for (int32_t row : unfolded_) pools_->row_blocks_.release(row);
  for (int32_t page : pages_) pools_->pages_.release(page);
  for (size_t g = 0; g < windows_.size(); ++g) {
    const WindowPages& w = windows_[g];
    for (size_t i = w.behind; i < w.pages.size(); ++i)
      pools_->windows_[g].pages.release(w.pages[i]);
  }
}

std::unique_ptr<SequenceState> Checkpoint::restore() const {
  return std::unique_ptr<SequenceState>(new SequenceState(*this));
}

StateImage Checkpoint::image(int32_t first_page) const {
  StateImage out;
  out.position = position_;
  out.first_page = std::min(first_page, static_cast<int32_t>(pages_.size()));
  Memory& memory = pools_->memory_;
  const auto page_bytes = static_cast<size_t>(pools_->page_stride());
  const size_t n_pages = pages_.size() - static_cast<size_t>(out.first_page);
  std::vector<uint8_t> pages(n_pages * page_bytes);
  for (size_t i = 0; i < n_pages; ++i) {
    const int32_t page = pages_[static_cast<size_t>(out.first_page) + i];
    const Status done =
        memory.read(pages.data() + i * page_bytes, pools_->pages_.data(page), page_bytes);
    if (!done.ok()) return out;
  }
  std::vector<uint8_t> slot;
  const auto slot_bytes = static_cast<size_t>(pools_->slot_stride());
  const auto row_bytes = static_cast<size_t>(pools_->row_stride());
  const auto window_bytes = static_cast<size_t>(pools_->window_bytes(position_));
  uint8_t* to = nullptr;
  if (pools_->has_slots() && position_ > 0) {
    slot.resize(slot_bytes + unfolded_.size() * row_bytes + window_bytes);
    to = slot.data();
    if (!memory.read(to, pools_->slots_.data(slot_), slot_bytes).ok()) return out;
    to += slot_bytes;
    for (const int32_t row : unfolded_) {
      if (!memory.read(to, pools_->row_blocks_.data(row), row_bytes).ok()) return out;
      to += row_bytes;
    }
    out.unfolded = static_cast<int32_t>(unfolded_.size());
  } else {
    slot.resize(window_bytes);
    to = slot.data();
  }
  for (size_t g = 0; g < windows_.size(); ++g) {
    const WindowPages& w = windows_[g];
    const BlockPool& pool = pools_->windows_[g].pages;
    const auto bytes = static_cast<size_t>(pool.block_bytes());
    for (size_t i = w.behind; i < w.pages.size(); ++i, to += bytes) {
      if (!memory.read(to, pool.data(w.pages[i]), bytes).ok()) return out;
    }
  }
  out.pages = std::make_shared<const std::vector<uint8_t>>(std::move(pages));
  out.slot = std::make_shared<const std::vector<uint8_t>>(std::move(slot));
  return out;
}

SequenceState::SequenceState(Checkpoint from) : now_(std::move(from)) {
  static std::atomic<uint64_t> last_key = 0;
  key_ = last_key.fetch_add(1, std::memory_order_relaxed) + 1;
}

SequenceState::~SequenceState() {
  for (int32_t row : pending_) now_.pools_->row_blocks_.release(row);
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
  for (size_t i = kept; i < pending_.size(); ++i) now_.pools_->row_blocks_.release(pending_[i]);
  pending_.resize(kept);
  now_.unfolded_.insert(now_.unfolded_.end(), pending_.begin(), pending_.end());
  pending_.clear();
  now_.release_pages_beyond_position();
  now_.release_pages_behind_windows();
  return {};
}

Checkpoint SequenceState::checkpoint() const {
  Checkpoint snapshot = now_;
  snapshot.release_pages_beyond_position();
  return snapshot;
}

void Checkpoint::release_pages_beyond_position() {
  const auto used = static_cast<size_t>(pools_->pages_for(position_));
  for (; pages_.size() > used; pages_.pop_back()) pools_->pages_.release(pages_.back());
  for (size_t g = 0; g < windows_.size(); ++g) {
    std::vector<int32_t>& pages = windows_[g].pages;
    const auto in_window = static_cast<size_t>(pools_->window_pages_for(position_));
    for (; pages.size() > in_window; pages.pop_back()) {
      pools_->windows_[g].pages.release(pages.back());
    }
  }
}

Status Checkpoint::allocate_windows(int32_t position) {
  for (size_t g = 0; g < windows_.size(); ++g) {
    WindowPages& w = windows_[g];
    w.behind = static_cast<size_t>(pages_behind(position, window(g), pools_->spec_.page_tokens));
    w.pages.assign(w.behind, 0);
    const auto needed = static_cast<size_t>(pools_->window_pages_for(position));
    while (w.pages.size() < needed) {
      CHIMERE_TRY(const int32_t page, pools_->allocate(pools_->windows_[g].pages));
      w.pages.push_back(page);
    }
  }
  return {};
}

void Checkpoint::release_pages_behind_windows() {
  for (size_t g = 0; g < windows_.size(); ++g) {
    WindowPages& w = windows_[g];
    const auto behind =
        static_cast<size_t>(pages_behind(position_, window(g), pools_->spec_.page_tokens));
    for (; w.behind < behind; ++w.behind) pools_->windows_[g].pages.release(w.pages[w.behind]);
  }
}

}  // namespace chimere::state
