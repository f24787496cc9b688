// A table that stores each value once and numbers the values.
#ifndef CHIMERE_CONSTRAINTS_INTERNER_H_
#define CHIMERE_CONSTRAINTS_INTERNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "constraints/hash.h"

namespace chimere::constraints {

/// Stores equal values once. Ids are dense and begin at 0.
template <typename T, typename Hash>
class Interner {
 public:
  uint32_t intern(T value) {
    const uint64_t hash = Hash()(value);
    if ((values_.size() + 1) * 2 > slots_.size()) grow();
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = place(hash);
    for (; slots_[at].id != 0; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].tag == tag && values_[slots_[at].id - 1] == value) return slots_[at].id - 1;
    }
    const auto id = static_cast<uint32_t>(values_.size());
    values_.push_back(std::move(value));
    hashes_.push_back(hash);
    slots_[at] = {id + 1, tag};
    return id;
  }
  const T& operator[](uint32_t id) const { return values_[id]; }
  uint32_t size() const { return static_cast<uint32_t>(values_.size()); }

 private:
  struct Slot {
    uint32_t id = 0;  ///< + 1; 0: free
    uint32_t tag = 0;
  };
  size_t place(uint64_t hash) const { return mix(hash) & (slots_.size() - 1); }
  void grow() {
    slots_.assign(slots_.empty() ? 16 : slots_.size() * 2, {});
    for (uint32_t id = 0; id < values_.size(); ++id) {
      size_t at = place(hashes_[id]);
      while (slots_[at].id != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {id + 1, static_cast<uint32_t>(hashes_[id] >> 32)};
    }
  }

  std::deque<T> values_;
  std::vector<uint64_t> hashes_;
  std::vector<Slot> slots_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_INTERNER_H_
