// Divergence of one token distribution from another.
#ifndef CHIMERE_SAMPLING_DIVERGENCE_H_
#define CHIMERE_SAMPLING_DIVERGENCE_H_

#include <span>

#include "base/result.h"

namespace chimere::sampling {

struct Divergence {
  /// Kullback-Leibler divergence KL(base || other) in nats: sum p ln(p / q), p = softmax(base), q =
  /// softmax(other); infinity where `other` masks a token that `base` does not.
  double kl = 0;
  bool same_top = false;  ///< both have the same most likely token
};

/// Both arguments are logits of the same vocabulary. Errors: kInvalidArgument (sizes differ),
/// kInvalidData (NaN or +infinity, or all masked).
Result<Divergence> divergence(std::span<const float> base, std::span<const float> other);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_DIVERGENCE_H_
