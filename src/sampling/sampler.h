// Chooses the next token from logits.
#ifndef CHIMERE_SAMPLING_SAMPLER_H_
#define CHIMERE_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/log_softmax.h"

namespace chimere::sampling {

/// What a request says about sampling. The steps are applied in the order of the fields; a default
/// leaves its step out.
struct SamplingParams {
  /// Tokens of the last `penalty_window` positions (prompt and reply): a positive logit is divided
  /// by `repeat_penalty`, a negative one multiplied by it (Keskar et al. 2019, arXiv:1909.05858);
  /// then every logit loses count * frequency_penalty + presence_penalty.
  float repeat_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int32_t penalty_window = 64;  ///< -1: the whole sequence

  float temperature = 0;  ///< logits are divided by it; 0 takes the most likely token (greedy)
  int32_t top_k = 0;      ///< keep the k most likely tokens; 0: all
  float top_p = 1;        ///< of those, the fewest whose probabilities reach top_p of their sum
  float min_p = 0;        ///< of those, the ones at least min_p as likely as the most likely one
  uint64_t seed = 0;

  /// Log-probabilities to report: -1 none, 0 the chosen token's, N also those of the N most likely
  /// tokens.
  int32_t logprobs = -1;
};

/// Errors: kInvalidArgument, naming the value and its range.
Status validate(const SamplingParams& params);

struct Sampled {
  int32_t id = 0;
  /// Of softmax(logits) as the model gave them, before penalties and temperature; only when
  /// params.logprobs >= 0.
  float logprob = 0;
  float entropy = 0;  ///< nats
  float p_max = 0;
  std::vector<Candidate> top;  ///< params.logprobs tokens, most likely first
};

/// Draws with the Gumbel-max rule: among the kept tokens, the largest logit / temperature - ln(-ln
/// u) wins, with u = uniform(seed, position, id). The draw is a pure function of the arguments,
/// does not depend on the order in which tokens are looked at, and two distributions that are close
/// choose the same token most of the time, which is what lets a draft be accepted exactly when it
/// equals the sampled token. `history`: the tokens before `position`, latest last. Ties go to the
/// lower id. Errors: kInvalidData, when the logits are not numbers or all masked.
Result<Sampled> sample(std::span<const float> logits, std::span<const int32_t> history,
                       uint64_t position, const SamplingParams& params);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_SAMPLER_H_
