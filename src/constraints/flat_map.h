// A hash table from numbers to small values, for memoised transitions.
#ifndef CHIMERE_CONSTRAINTS_FLAT_MAP_H_
#define CHIMERE_CONSTRAINTS_FLAT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "constraints/hash.h"

namespace chimere::constraints {

/// Open addressing. Keys are not 0; nothing is removed.
template <typename Value>
class FlatMap {
 public:
  /// nullptr: absent. Valid until the next insert().
  const Value* find(uint64_t key) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = mix(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].value;
      if (slots_[i].key == 0) return nullptr;
    }
  }
  /// The key must be absent.
  void insert(uint64_t key, Value value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(key, value);
    ++size_;
  }
  size_t size() const { return size_; }
  size_t memory() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    uint64_t key = 0;
    Value value{};
  };
  void place(uint64_t key, Value value) {
    size_t i = mix(key) & mask_;
    while (slots_[i].key != 0) i = (i + 1) & mask_;
    slots_[i] = {key, value};
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.key != 0) place(slot.key, slot.value);
    }
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

/// Finds equal elements of an array that grows and is emptied often.
class IndexSet {
 public:
  void clear() {
    size_ = 0;
    if (++stamp_ == 0) slots_.clear();
  }
  /// Adds index `index` of the array. False if the array has an equal element: `same(i)` says
  /// whether element i is one.
  template <typename Same>
  bool add(uint64_t hash, uint32_t index, Same&& same) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    size_t i = hash & (slots_.size() - 1);
    for (; slots_[i].stamp == stamp_; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].hash == hash && same(slots_[i].index)) return false;
    }
    slots_[i] = {hash, index, stamp_};
    ++size_;
    return true;
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t index = 0;
    uint32_t stamp = 0;
  };
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    if (stamp_ == 0) stamp_ = 1;
    for (const Slot& slot : old) {
      if (slot.stamp != stamp_) continue;
      size_t i = slot.hash & (slots_.size() - 1);
      while (slots_[i].stamp == stamp_) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  uint32_t stamp_ = 0;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_FLAT_MAP_H_
