#include "sampling/prior.h"

#include <algorithm>
#include <limits>

#include "kernels/math.h"
#include "sampling/math.h"

namespace chimere::sampling {

Candidate mix_logits(std::span<const float> logits, const Candidate& largest,
                     const PriorMixture& mixture, std::vector<float>& out) {
  out.assign(logits.begin(), logits.end());
  double taken = 0;
  for (const PriorShare& s : mixture.shares) taken += static_cast<double>(s.mass);
  const auto scale = static_cast<float>(1 / std::max(1e-6, 1 - taken));
  Candidate best = largest;
  for (const PriorShare& s : mixture.shares) {
    float& logit = out[static_cast<size_t>(s.id)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    const double log_p = std::min(0.0, static_cast<double>(logit) - mixture.log_sum);
    const float p = kernels::exp_f32(static_cast<float>(log_p)) + s.mass * scale;
    // Where rounding would lower it, nothing was added that counts.
    logit = std::max(
        logit, static_cast<float>(static_cast<double>(log_positive_f32(p)) + mixture.log_sum));
    best = std::min(best, Candidate{logit, s.id});
  }
  return best;
}

}  // namespace chimere::sampling
