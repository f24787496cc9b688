// The distribution that logits stand for: normaliser, entropy, log-probabilities.
#ifndef CHIMERE_SAMPLING_LOG_SOFTMAX_H_
#define CHIMERE_SAMPLING_LOG_SOFTMAX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace chimere::sampling {

/// A token and its score: a logit or a log-probability, as the function says.
struct Candidate {
  float value = 0;
  int32_t id = 0;

  /// Larger first, ties to the lower id.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  }
};

/// The k largest logits in order (fewer if the vocabulary has fewer), in time linear in the
/// vocabulary. Tokens at -infinity are masked and never appear.
std::vector<Candidate> select_largest(std::span<const float> logits, int64_t k);

/// The largest logit. Errors: kInvalidData if one is NaN or +infinity, or if all are -infinity.
Result<Candidate> find_largest(std::span<const float> logits);

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
