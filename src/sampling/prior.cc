#include "sampling/prior.h"

#include <algorithm>
#include <limits>

#include "sampling/math.h"

namespace chimere::sampling {

void mix_logits(std::span<const float> logits, const Candidate& largest,
                std::span<const PriorShare> shares, std::vector<float>& out) {
  out.assign(logits.begin(), logits.end());
  double taken = 0;
  for (const PriorShare& s : shares) taken += static_cast<double>(s.mass);
  const double left = std::max(1e-6, 1 - taken);
  const double log_sum = summarise(logits, largest.value).log_sum;
  for (const PriorShare& s : shares) {
    float& logit = out[static_cast<size_t>(s.id)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    const double p = exp_nonpositive(std::min(0.0, static_cast<double>(logit) - log_sum));
    logit = static_cast<float>(log_positive(p + static_cast<double>(s.mass) / left) + log_sum);
  }
}

}  // namespace chimere::sampling
