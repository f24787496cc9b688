#include "sampling/divergence.h"

#include <algorithm>
#include <limits>

#include "sampling/log_softmax.h"
#include "sampling/math.h"

namespace chimere::sampling {

Result<Divergence> divergence(std::span<const float> base, std::span<const float> other) {
  if (base.size() != other.size()) {
    return invalid_argument("Distributions over different vocabularies cannot be compared.");
  }
  CHIMERE_TRY(const Candidate base_top, find_largest(base));
  CHIMERE_TRY(const Candidate other_top, find_largest(other));
  const double base_sum = summarise(base, base_top.value).log_sum;
  const double other_sum = summarise(other, other_top.value).log_sum;
  double kl = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_p = std::min(0.0, base[i] - base_sum);
    const double p = exp_nonpositive(log_p);
    if (p > 0) kl += p * (log_p - (other[i] - other_sum));
  }
  // Rounding may give slightly less than 0 for equal distributions.
  return Divergence{std::max(0.0, kl), base_top.id == other_top.id};
}

}  // namespace chimere::sampling
