// DRY ("Don't Repeat Yourself") penalises tokens that would continue a repetition (the sampler of
// text-generation-webui and llama.cpp; no paper).
#ifndef CHIMERE_SAMPLING_DRY_H_
#define CHIMERE_SAMPLING_DRY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sampling/logit_adjustment.h"

namespace chimere::sampling {

/// Token sequences across which no repetition is counted: ends of lines, names of speakers.
struct DryBreakers {
  std::unordered_set<int32_t> single;  ///< one token is a breaker by itself
  /// Breakers of several tokens, by their first token; the values are the remaining tokens.
  std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> longer;
};

struct DryParams {
  float multiplier = 0;        ///< 0: off
  float base = 1.75F;          ///< below 1: off
  int32_t allowed_length = 2;  ///< repetitions of at most this length are not penalised
  int32_t window = -1;         ///< tokens considered; 0: off; -1: the whole sequence
  std::shared_ptr<const DryBreakers> breakers;  ///< may be empty

  bool active() const { return multiplier != 0 && base >= 1 && window != 0; }
};

/// For each token t, n is the length of the longest sequence that ends the window, contains no
/// breaker and occurs earlier in the window followed by t. If n >= allowed_length, t loses
/// multiplier * base^(n - allowed_length), unless t is a breaker. Linear time in the window.
std::vector<LogitAdjustment> dry_adjustments(std::span<const int32_t> history,
                                             const DryParams& params);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_DRY_H_
