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

/// The options of base/settings.def, at their neutral values: DRY is off while the multiplier is 0,
/// the base is below 1 or the window is 0.
struct DryParams {
#define DRY_OPTION(id, type, member, neutral, ...) type member = neutral;
#include "base/settings.def"
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
