#include "text/byte_pair.h"

#include <algorithm>
#include <bit>

namespace chimere::text {

MergeTable::MergeTable(size_t n_merges) : slots_(std::bit_ceil(2 * n_merges + 2)) {}

size_t MergeTable::slot_of(int32_t left, int32_t right) const {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  const uint64_t hash = key * 0x9E3779B97F4A7C15u;
  const size_t mask = slots_.size() - 1;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (slots_[slot].left >= 0 && (slots_[slot].left != left || slots_[slot].right != right)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

bool MergeTable::add(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.left >= 0) return false;
  slot = {left, right, merge};
  return true;
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(left, right)].merge;
}

void BytePairMerger::push(int32_t position, const std::vector<int32_t>& symbols) {
  const int32_t left = symbols[position];
  const int32_t right = symbols[next_[position]];
  const MergeTable::Merge merge = table_.find(left, right);
  if (merge.rank < 0) return;
  heap_.push_back(
      {static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(position), left, right});
}

void BytePairMerger::merge(std::vector<int32_t>& symbols) {
  const auto n = static_cast<int32_t>(symbols.size());
  if (n < 2) return;
  const auto later = [](const Candidate& a, const Candidate& b) { return a.order > b.order; };
  previous_.resize(n);
  next_.resize(n);
  heap_.clear();
  for (int32_t i = 0; i < n; ++i) {
    previous_[i] = i - 1;
    next_[i] = i + 1 < n ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < n; ++i) push(i, symbols);
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto push_later = [&](int32_t position) {
    const size_t before = heap_.size();
    push(position, symbols);
    if (heap_.size() > before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    const Candidate best = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    const auto at = static_cast<int32_t>(best.order & 0xFFFFFFFFu);
    const int32_t right = next_[at];
    if (symbols[at] != best.left || right < 0 || symbols[right] != best.right) continue;
    symbols[at] = table_.find(best.left, best.right).symbol;
    symbols[right] = -1;  // gone: no candidate names it
    next_[at] = next_[right];
    if (next_[at] >= 0) previous_[next_[at]] = at;
    if (previous_[at] >= 0) push_later(previous_[at]);
    if (next_[at] >= 0) push_later(at);
  }
  std::erase(symbols, -1);
}

}  // namespace chimere::text
