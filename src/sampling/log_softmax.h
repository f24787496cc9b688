// The distribution that logits stand for: normaliser, entropy, log-probabilities.
#ifndef CHIMERE_SAMPLING_LOG_SOFTMAX_H_
#define CHIMERE_SAMPLING_LOG_SOFTMAX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/survey.h"

namespace chimere::sampling {

/// Summary of softmax(scale * logits).
struct Distribution {
  double log_sum =
      0;  ///< ln sum exp(scale * logit): subtract it from scale * logit to have a log-probability
  double entropy = 0;  ///< in nats
  double p_max = 0;
};

/// `largest` is find_largest(logits)->value. Sums run in double precision in a fixed order.
Distribution summarise(std::span<const float> logits, float largest, double scale = 1);

/// The same of softmax(logits) with exponentials in single precision: within 1e-5, ten times as
/// fast, and still the same bits on every machine.
Distribution summarise_f32(std::span<const float> logits, float largest);

/// The k most likely tokens with their log-probabilities.
std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOG_SOFTMAX_H_
