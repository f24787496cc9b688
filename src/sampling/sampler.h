// Samples the next token from logits.
#ifndef CHIMERE_SAMPLING_SAMPLER_H_
#define CHIMERE_SAMPLING_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/token_choice.h"
#include "sampling/candidates.h"
#include "sampling/log_softmax.h"
#include "sampling/params.h"
#include "sampling/partial_logits.h"
#include "sampling/token_counts.h"

namespace chimere::sampling {

struct Sampled {
  int32_t id = 0;
  /// From softmax(logits) as the model gave them, mixed with params.auxiliary, before biases,
  /// penalties and temperature; only when params.logprobs >= 0.
  float logprob = 0;
  float entropy = 0;  ///< nats
  float p_max = 0;
  std::vector<Candidate> top;  ///< params.logprobs tokens, most likely first
};

/// The sampler of one generation. Without Mirostat the result of sample() is a pure function of its
/// arguments and the parameters. Mirostat's mu is the only state carried from token to token; it is
/// a function of the logits of earlier sample() calls, so that a generation that is replayed or
/// resumed gets the same tokens. A forked generation takes a copy. Call sample() only for tokens
/// that are kept: a draft is compared with the token sampled in its place, and nothing must be
/// undone when they differ.
class Sampler {
 public:
  /// `params` must have passed validate().
  explicit Sampler(SamplingParams params);

  /// `history`: the tokens before `position`, latest last. The draw (gumbel_max.h) depends on seed,
  /// position and token ids, not on the order in which tokens are visited. Two similar
  /// distributions therefore select the same token most of the time, which is why a draft can be
  /// accepted exactly when it equals the sampled token. `allowed`: the only tokens that may be
  /// sampled, as if all others had probability 0 (after params.auxiliary, before biases); empty:
  /// all. Reported log-probabilities are those without the restriction. Errors: kInvalidData when
  /// the logits are NaN or +infinity or all masked; those of params.auxiliary.
  Result<Sampled> sample(std::span<const float> logits, std::span<const int32_t> history,
                         uint64_t position, kernels::TokenMask allowed = {});

  /// The sampler chain as a GPU choice among the needed().largest largest logits of a row, which
  /// gives the same token; nothing if the chain depends on more (the preceding text, other logits).
  std::optional<kernels::TokenChoice> choice_on_gpu(uint64_t position) const;

  /// What partial logits must contain to sample from them, with at most `most` largest logits.
  /// Sufficient with a top-k (or greedy) of at most `most` tokens before any sampler that needs the
  /// whole distribution, and no more log-probabilities than that; or with a min-p, or a top-p
  /// before the temperature, which are decided if few tokens pass them. Mirostat, and
  /// log-probabilities of a mixture with an auxiliary model, need the whole row. `restricted`:
  /// sample() will be called with allowed tokens, from which the largest logits are then taken.
  Needed needed(int32_t most, bool restricted = false) const;
  /// Writes the ids below `vocabulary` whose logits partial logits after `history` must contain,
  /// ascending: those that change before tokens are removed. Errors: those of
  /// AuxiliaryLm::tokens().
  Status selected_ids(std::span<const int32_t> history, int64_t vocabulary,
                      std::vector<int32_t>& out);
  /// Samples from partial logits with at least needed().largest largest logits: the same bits as
  /// from the whole row; nothing if the partial logits do not decide the token.
  Result<std::optional<Sampled>> sample(const PartialLogits& partial_logits,
                                        std::span<const int32_t> history, uint64_t position,
                                        kernels::TokenMask allowed = {});

  const SamplingParams& params() const { return params_; }

 private:
  Status apply(SamplerType sampler, std::span<const int32_t> history, uint64_t position);
  /// Mixes params.auxiliary into `known_`, which holds the partial logits.
  Status mix_known(const PartialLogits& partial_logits, std::span<const int32_t> history,
                   Candidates::Rest& rest);
  /// Valid until the next call.
  std::span<const LogitAdjustment> penalty_adjustments(std::span<const int32_t> history);
  void apply_temperature();
  void apply_xtc(uint64_t position);
  int32_t draw_mirostat(uint64_t position);

  SamplingParams params_;
  std::vector<SamplerType> order_;          ///< those that have an effect
  std::vector<LogitAdjustment> bias_;       ///< params_.logit_bias, each token once
  TokenCounts counts_;                      ///< scratch
  std::vector<LogitAdjustment> penalties_;  ///< scratch
  Candidates candidates_;                   ///< scratch
  AuxiliaryMixture mixture_;
  std::vector<float> mixed_;
  std::vector<Candidate> known_;  ///< the tokens of the partial logits
  std::vector<float> by_id_;      ///< their logits by id, for the auxiliary model
  double mu_;                     ///< Mirostat's, in bits
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_SAMPLER_H_
