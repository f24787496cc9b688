// Transition tables that are filled when transitions are asked for.
#ifndef CHIMERE_CONSTRAINTS_LAZY_ROWS_H_
#define CHIMERE_CONSTRAINTS_LAZY_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace chimere::constraints {

/// For every state and byte a number, or nothing yet. A state whose few bytes were asked for takes
/// little memory: rows are divided into blocks of 16 bytes.
class LazyRows {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t get(uint32_t state, uint8_t byte) const {
    if (state >= heads_.size()) return kUnknown;
    const uint32_t block = heads_[state][byte >> 4];
    return block == 0 ? kUnknown : blocks_[block - 1][byte & 15];
  }

  void set(uint32_t state, uint8_t byte, uint32_t value) {
    if (state >= heads_.size()) heads_.resize(state + 1);
    uint32_t& block = heads_[state][byte >> 4];
    if (block == 0) {
      blocks_.emplace_back().fill(kUnknown);
      block = static_cast<uint32_t>(blocks_.size());
    }
    blocks_[block - 1][byte & 15] = value;
  }

  size_t memory() const {
    return heads_.capacity() * sizeof(heads_[0]) + blocks_.capacity() * sizeof(blocks_[0]);
  }

 private:
  std::vector<std::array<uint32_t, 16>> heads_;  ///< index of the block + 1
  std::vector<std::array<uint32_t, 16>> blocks_;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LAZY_ROWS_H_
