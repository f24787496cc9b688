// Chooses the next token from logits.
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

namespace chimere::sampling {

struct Sampled {
  int32_t id = 0;
  /// Of softmax(logits) as the model gave them, mixed with params.prior, before biases, penalties
  /// and temperature; only when params.logprobs >= 0.
  float logprob = 0;
  float entropy = 0;  ///< nats
  float p_max = 0;
  std::vector<Candidate> top;  ///< params.logprobs tokens, most likely first
};

/// The sampler of one generation. Without Mirostat a choice is a pure function of the arguments of
/// sample() and the parameters. Mirostat's mu is the only thing that is kept from token to token;
/// it is in turn a function of the logits that sample() was called with before, so that a
/// generation that is run again, or continues after a pause, gets the same tokens. A forked
/// generation takes a copy. Call sample() for tokens that are kept alone: a draft is checked
/// against the token sampled in its place, and nothing must be taken back when it differs.
class Sampler {
 public:
  /// `params` have passed validate().
  explicit Sampler(SamplingParams params);

  /// `history`: the tokens before `position`, latest last. The draw follows race.h: it depends on
  /// seed, position and token ids, not on the order in which tokens are looked at, and two
  /// distributions that are close choose the same token most of the time, which is what lets a
  /// draft be accepted exactly when it equals the sampled token. Errors: kInvalidData, when the
  /// logits are not numbers or all masked; those of params.prior.
  Result<Sampled> sample(std::span<const float> logits, std::span<const int32_t> history,
                         uint64_t position);

  /// The choice as one among a row's largest logits, of which there are needed().largest, with the
  /// same token; nothing where it depends on more: the text so far, the other logits.
  std::optional<kernels::TokenChoice> choice_on_gpu(uint64_t position) const;

  /// What an partial logits of a row must have to decide the choice. It takes a top-k, or the
  /// choice of the most likely token, before whatever else asks for the distribution, of at most
  /// `most` tokens, and no more log-probabilities; or a top-p of the logits as they are, or a
  /// min-p: then the choice is decided where few tokens reach it. All logits are needed with
  /// Mirostat, and for log-probabilities of a mixture with a prior.
  Needed needed(int32_t most) const;
  /// The tokens below `vocabulary` that the partial logits behind `history` must list, in rising
  /// order: those whose logits change before tokens are cut. Errors: those of Prior::tokens().
  Status list(std::span<const int32_t> history, int64_t vocabulary,
              std::vector<int32_t>& out) const;
  /// As sample() from all logits, of which there are more than needed().largest, with the same
  /// bits; nothing if the partial logits does not decide it.
  Result<std::optional<Sampled>> sample(const PartialLogits& partial_logits,
                                        std::span<const int32_t> history, uint64_t position);

  const SamplingParams& params() const { return params_; }

 private:
  Status apply(SamplerType sampler, std::span<const int32_t> history, uint64_t position);
  /// Mixes params.prior into `known_`, which came of the partial logits.
  Status mix_known(const PartialLogits& partial_logits, std::span<const int32_t> history);
  Status apply_bias();
  std::vector<LogitAdjustment> penalty_adjustments(std::span<const int32_t> history) const;
  void apply_temperature();
  void apply_xtc(uint64_t position);
  int32_t draw_mirostat(uint64_t position);

  SamplingParams params_;
  std::vector<SamplerType> order_;  ///< those that do something
  Candidates candidates_;           ///< here for its memory
  AuxiliaryMixture mixture_;
  std::vector<float> mixed_;
  std::vector<Candidate> known_;  ///< of an partial logits
  std::vector<float> by_id_;      ///< likewise, for the prior
  double mu_;                     ///< Mirostat's, in bits
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_SAMPLER_H_
