#include "sampling/auxiliary_lm.h"

#include <algorithm>
#include <limits>

#include "kernels/math.h"
#include "sampling/math.h"

namespace chimere::sampling {

namespace {

/// Factor by which a token's mass is multiplied before it is added to its probability.
float mass_scale(const AuxiliaryMixture& mixture) {
  double taken = 0;
  for (const TokenMass& s : mixture.shares) taken += static_cast<double>(s.mass);
  return static_cast<float>(1 / std::max(1e-6, 1 - taken));
}

/// The unmasked `logit` after adding `added` to its probability.
float mixed(float logit, float added, double log_sum) {
  const double log_p = std::min(0.0, static_cast<double>(logit) - log_sum);
  const float p = kernels::exp_f32(static_cast<float>(log_p)) + added;
  // Rounding must not lower the logit.
  return std::max(logit, static_cast<float>(static_cast<double>(log_positive_f32(p)) + log_sum));
}

}  // namespace

Candidate mix_logits(std::span<const float> logits, const Candidate& largest,
                     const AuxiliaryMixture& mixture, std::vector<float>& out) {
  out.assign(logits.begin(), logits.end());
  const float scale = mass_scale(mixture);
  Candidate best = largest;
  for (const TokenMass& s : mixture.shares) {
    float& logit = out[static_cast<size_t>(s.id)];
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    logit = mixed(logit, s.mass * scale, mixture.log_sum);
    best = std::min(best, Candidate{logit, s.id});
  }
  return best;
}

void mix_logits(std::span<Candidate> known, const AuxiliaryMixture& mixture) {
  const float scale = mass_scale(mixture);
  for (const TokenMass& s : mixture.shares) {
    const auto c = std::ranges::find(known, s.id, &Candidate::id);
    if (c != known.end()) c->value = mixed(c->value, s.mass * scale, mixture.log_sum);
  }
  std::sort(known.begin(), known.end());
}

}  // namespace chimere::sampling
