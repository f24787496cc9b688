// Byte-pair merging of one word in O(n log n).
#ifndef CHIMERE_TEXT_BYTE_PAIR_H_
#define CHIMERE_TEXT_BYTE_PAIR_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace chimere::text {

/// The merge of two neighbouring symbols, and its rank. Symbols are numbered by the caller.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = -1;  ///< lower is merged first; -1: the pair is not merged
    int32_t symbol = -1;
  };

  explicit MergeTable(size_t n_merges);
  /// Adds a merge. Returns false, without a change, if the pair has one already.
  bool add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    int32_t left = -1;
    int32_t right = -1;
    Merge merge;
  };
  size_t slot_of(int32_t left, int32_t right) const;
  std::vector<Slot> slots_;  ///< open addressing; the size is a power of two
};

/// Merges the symbols of words; reuses its memory. One object per thread.
class BytePairMerger {
 public:
  explicit BytePairMerger(const MergeTable& table) : table_(table) {}

  /// Applies the merges to the symbols, lowest rank first and leftmost among equals, until none
  /// applies. At most 2^31 symbols.
  void merge(std::vector<int32_t>& symbols);

 private:
  struct Candidate {
    uint64_t order;  ///< rank << 32 | position of the left symbol
    int32_t left;    ///< the symbols when it was found: another pair there means it is outdated
    int32_t right;
  };
  void push(int32_t position, const std::vector<int32_t>& symbols);

  const MergeTable& table_;
  std::vector<int32_t> previous_;
  std::vector<int32_t> next_;
  std::vector<Candidate> heap_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_BYTE_PAIR_H_
