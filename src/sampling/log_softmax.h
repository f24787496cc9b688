// The softmax distribution of logits: normaliser, entropy, log-probabilities.
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
  /// ln sum exp(scale * logit): scale * logit - log_sum is a log-probability.
  double log_sum = 0;
  double entropy = 0;  ///< nats
  double p_max = 0;
};

/// `largest` is find_largest(logits)->value. Sums are accumulated in double precision in a fixed
/// order.
Distribution summarise(std::span<const float> logits, float largest, double scale = 1);

/// Log-sum-exp statistics of softmax(logits) with single-precision exponentials: ten times as fast
/// as summarise(), with the same bits on every CPU and GPU (kernels::row_log_sum_exp()).
/// `set`: the logits of tokens outside it count as -infinity; empty: all count.
kernels::LogSumExp log_sum_exp(std::span<const float> logits, kernels::TokenMask set = {});
/// Within 1e-5 of summarise(logits). `sums`: of a row that is not all masked.
Distribution distribution_of(const kernels::LogSumExp& sums);

/// Converts logits into log-probabilities in place.
void to_logprobs(std::span<Candidate> logits, const Distribution& distribution);

/// The k most likely tokens with their log-probabilities, most likely first.
std::vector<Candidate> top_logprobs(std::span<const float> logits, const Distribution& distribution,
                                    int64_t k);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_LOG_SOFTMAX_H_
