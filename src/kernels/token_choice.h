// How the next token is chosen from a row's largest logits, for samplers that need nothing else.
// The choice runs on the GPU, so that the next step can start without the host (overlap
// scheduling).
#ifndef CHIMERE_KERNELS_TOKEN_CHOICE_H_
#define CHIMERE_KERNELS_TOKEN_CHOICE_H_

#include <array>
#include <cstdint>

#include "kernels/exact_math.h"
#include "kernels/philox.h"

namespace chimere::kernels {

/// One sampler (src/sampling, same bits) applied to the largest logits, in falling order.
struct ChoiceSampler {
  enum Kind : int32_t {
    kTopK,  ///< keeps the first `value` tokens
    kTopP,  ///< keeps the most likely ones until their probabilities sum to `value`
    kMinP,  ///< keeps those with scale * logit >= scale * largest + `value`, the logarithm of min_p
    kScale,  ///< multiplies the scale by `value`, 1 / temperature
  };
  Kind kind = kTopK;
  int32_t unused = 0;
  double value = 0;
};

/// The samplers in order, then a draw by the Gumbel-max trick (sampling/gumbel_max.h). The first
/// truncating sampler is a kTopK of at most TopLogits::count; if one token remains, nothing is
/// drawn.
struct TokenChoice {
  static constexpr int kMaxSamplers = 4;
  uint64_t seed = 0;
  uint64_t position = 0;
  int32_t n_samplers = 0;
  int32_t unused = 0;
  std::array<ChoiceSampler, kMaxSamplers> samplers = {};
};

/// e^(scale * (logit - largest)): a token's probability before normalisation.
CHIMERE_INLINE double choice_weight(float logit, float largest, double scale) {
  const double x = (static_cast<double>(logit) - static_cast<double>(largest)) * scale;
  return exp_nonpositive(x > -708.0 ? x : -708.0);
}

/// The Gumbel-max score of a token with scale * logit = `base` (sampling/gumbel_max.h).
CHIMERE_INLINE double gumbel_score(double base, uint64_t seed, uint64_t position, int32_t id) {
  const double u = uniform(seed, position, static_cast<uint32_t>(id));
  return base - log_positive(-log_positive(u));
}

/// Most rows of a step whose tokens can be chosen on the device and passed to the next step.
inline constexpr int kMaxChoices = 64;

}  // namespace chimere::kernels

#endif  // CHIMERE_KERNELS_TOKEN_CHOICE_H_
