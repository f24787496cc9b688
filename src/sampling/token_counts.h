// Counts the tokens of a text, in memory that is reused from call to call.
#ifndef CHIMERE_SAMPLING_TOKEN_COUNTS_H_
#define CHIMERE_SAMPLING_TOKEN_COUNTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace chimere::sampling {

/// A hash table with open addressing.
class TokenCounts {
 public:
  struct Entry {
    int32_t id = -1;
    int32_t count = 0;
  };

  /// The distinct tokens of `text` (ids of at least 0), in the order of their first occurrence.
  /// Valid until the next call.
  std::span<const Entry> count(std::span<const int32_t> text) {
    // In reverse order, which undoes the insertions one by one.
    for (; !entries_.empty(); entries_.pop_back()) places_[place_of(entries_.back().id)] = kFree;
    if (places_.size() < 2 * text.size()) {
      places_.assign(std::bit_ceil(2 * text.size()), kFree);
    }
    for (const int32_t id : text) {
      int32_t& place = places_[place_of(id)];
      if (place == kFree) {
        place = static_cast<int32_t>(entries_.size());
        entries_.push_back({id, 0});
      }
      ++entries_[static_cast<size_t>(place)].count;
    }
    return entries_;
  }

 private:
  static constexpr int32_t kFree = -1;

  /// Where the id is, or where it belongs.
  size_t place_of(int32_t id) const {
    const size_t mask = places_.size() - 1;
    size_t at = static_cast<size_t>(static_cast<uint32_t>(id) * 2654435769U) & mask;
    while (places_[at] != kFree && entries_[static_cast<size_t>(places_[at])].id != id) {
      at = (at + 1) & mask;
    }
    return at;
  }

  std::vector<int32_t> places_;  ///< indices of entries; a power of two
  std::vector<Entry> entries_;
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_TOKEN_COUNTS_H_
