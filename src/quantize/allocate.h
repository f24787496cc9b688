// One choice for each item so that the sum of losses is least within a budget of bytes: the
// multiple-choice knapsack problem, solved exactly.
#ifndef CHIMERE_QUANTIZE_ALLOCATE_H_
#define CHIMERE_QUANTIZE_ALLOCATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace chimere::quantize {

struct Choice {
  uint64_t bytes = 0;
  double loss = 0;  ///< finite, not negative
};

struct Allocation {
  std::vector<size_t> chosen;  ///< for each item an index into its choices
  uint64_t bytes = 0;
  double loss = 0;
  /// No allocation within the budget has a loss below loss - gap. 0 (up to rounding) unless the
  /// search was cut short.
  double gap = 0;
};

/// Lagrangian relaxation bounds the optimum and excludes choices whose reduced cost exceeds the
/// gap (Dyer, Kayal and Walker 1984); dynamic programming over Pareto-optimal pairs of bytes and
/// loss decides among the rest. `max_states` bounds its memory (16 bytes each, for each item): when
/// it is reached, the best solution known is returned with its gap. Every item needs a choice.
/// Errors: kInvalidArgument (the smallest choices together exceed the budget).
Result<Allocation> allocate(const std::vector<std::vector<Choice>>& items, uint64_t budget,
                            size_t max_states = size_t{1} << 18);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_ALLOCATE_H_
