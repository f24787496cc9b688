// How the token behind a row is chosen from the row's largest logits, where the choice needs
// nothing else: a step on a GPU can then be fed by the one before it.
#ifndef CHIMERE_KERNELS_TOKEN_CHOICE_H_
#define CHIMERE_KERNELS_TOKEN_CHOICE_H_

#include <array>
#include <cstdint>

#include "kernels/exact_math.h"
#include "kernels/philox.h"

namespace chimere::kernels {

/// What is left of the largest logits, largest first: one of sampling's stages, with its bits.
struct ChoiceSampler {
  enum Kind : int32_t {
    kTopK,   ///< the first `value` tokens
    kTopP,   ///< the most likely ones until their probabilities reach the sum `value`
    kMinP,   ///< those with scale * logit >= scale * largest + `value`, the logarithm of min_p
    kScale,  ///< the scale is multiplied by `value`, 1 / temperature
  };
  Kind kind = kTopK;
  int32_t unused = 0;
  double value = 0;
};

/// The stages in their order, then a draw (sampling/gumbel_max.h). The first one that cuts is a
/// kTopK of at most TopLogits::count; nothing is drawn where one token is left.
struct TokenChoice {
  static constexpr int kMaxSamplers = 4;
  uint64_t seed = 0;
  uint64_t position = 0;
  int32_t n_stages = 0;
  int32_t unused = 0;
  std::array<ChoiceSampler, kMaxSamplers> samplers = {};
};

/// e^(scale * (logit - largest)): what a token weighs in a distribution, up to its sum.
CHIMERE_INLINE double choice_weight(float logit, float largest, double scale) {
  const double x = (static_cast<double>(logit) - static_cast<double>(largest)) * scale;
  return exp_nonpositive(x > -708.0 ? x : -708.0);
}

/// What a token with scale * logit = `base` reaches in a race (sampling/gumbel_max.h).
CHIMERE_INLINE double gumbel_score(double base, uint64_t seed, uint64_t position, int32_t id) {
  const double u = uniform(seed, position, static_cast<uint32_t>(id));
  return base - log_positive(-log_positive(u));
}

/// Rows of a step whose tokens may be chosen, and fed to the next one.
inline constexpr int kMaxChoices = 64;

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_TOKEN_CHOICE_H_
