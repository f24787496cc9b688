// Which derivatives of an expression have texts of a length in an interval.
#ifndef CHIMERE_CONSTRAINTS_LENGTH_TABLE_H_
#define CHIMERE_CONSTRAINTS_LENGTH_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "constraints/regex.h"

namespace chimere::constraints {

/// Answers exactly for all derivatives of a prepared expression. Lengths that follow from the
/// structure of an expression are taken from it; otherwise its automaton is explored, and for each
/// length the states that have a text of this length are tabulated until they repeat.
class LengthTable {
 public:
  /// Error kUnsupported: `language` has lengths that do not follow from its structure and more than
  /// kMaxStates derivatives, or lengths that repeat late.
  static Result<LengthTable> create(RegexArena& arena, Regex language, bool lower_bound);

  /// Whether a derivative of the language has a text of low to high characters.
  bool meets(Regex derivative, uint64_t low, uint64_t high);

  size_t memory() const;

 private:
  static constexpr size_t kMaxStates = 5'000;
  static constexpr uint64_t kMaxWork = 100'000'000;

  explicit LengthTable(RegexArena& arena) : arena_(&arena) {}
  Status tabulate(Regex language);
  bool tabulated(uint32_t state, uint64_t low, uint64_t high) const;

  RegexArena* arena_;
  std::unordered_map<Regex, uint32_t> index_;
  std::vector<std::vector<uint64_t>> ends_after_;  ///< [length]: bits of the states
  size_t period_ = 0;                              ///< the last period_ rows repeat; 0: no table
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_LENGTH_TABLE_H_
