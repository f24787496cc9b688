// Sets of lengths: what the texts of a regular language can measure.
#ifndef CHIMERE_CONSTRAINTS_LENGTH_SET_H_
#define CHIMERE_CONSTRAINTS_LENGTH_SET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace chimere::constraints {

/// A set of non-negative integers as a union of a few arithmetic progressions. Operations that
/// would need more of them return nullopt.
class LengthSet {
 public:
  static constexpr uint64_t kInfinite = UINT64_MAX;
  static constexpr size_t kMaxParts = 64;

  /// first, first + step, ..., last; last may be kInfinite. step >= 1.
  struct Part {
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t step = 1;
    bool operator==(const Part&) const = default;
  };

  LengthSet() = default;  ///< empty
  static LengthSet of(uint64_t first, uint64_t last, uint64_t step = 1);

  bool empty() const { return parts_.empty(); }
  uint64_t min() const;  ///< of a set that is not empty
  uint64_t max() const;  ///< of a set that is not empty; may be kInfinite
  /// The least member from `low` on; nullopt: none.
  std::optional<uint64_t> next(uint64_t low) const;
  /// Whether some member lies in [low, high].
  bool meets(uint64_t low, uint64_t high) const {
    const auto member = next(low);
    return member && *member <= high;
  }
  const std::vector<Part>& parts() const { return parts_; }

  std::optional<LengthSet> unite(const LengthSet& other) const;
  /// All sums of one member of each.
  std::optional<LengthSet> add(const LengthSet& other) const;
  /// All sums of min to max members; max may be kInfinite.
  std::optional<LengthSet> repeat(uint64_t min, uint64_t max) const;

  bool operator==(const LengthSet&) const = default;

 private:
  std::vector<Part> parts_;  // sorted by first
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LENGTH_SET_H_
