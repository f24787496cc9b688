// The distribution that logits stand for: normaliser, entropy, log-probabilities.
#ifndef CHIMERE_SAMPLING_LOG_SOFTMAX_H_
#define CHIMERE_SAMPLING_LOG_SOFTMAX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "sampling/logit_scan.h"

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

/// Sums over softmax(logits) with exponentials in single precision, ten times as fast as
/// summarise(), and the same bits on every machine and GPU: kernels::row_log_sum_exp().
kernels::LogSumExp log_sum_exp(std::span<const float> logits);
/// Within 1e-5 of summarise(logits). `sums`: of a row that is not all masked.
Distribution distribution_of(const kernels::LogSumExp& sums);

/// Turns logits into log-probabilities.
void to_logprobs(std::span<Candidate> logits, const Distribution& distribution);

/// The k most likely tokens with their log-probabilities.
std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOG_SOFTMAX_H_
