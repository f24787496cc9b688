// An auxiliary language model, mixed into the model's distribution before all logit processors.
#ifndef CHIMERE_SAMPLING_AUXILIARY_LM_H_
#define CHIMERE_SAMPLING_AUXILIARY_LM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/log_softmax.h"

namespace chimere::sampling {

/// Probability mass that a token receives from the auxiliary model.
struct TokenMass {
  int32_t id = 0;
  float mass = 0;  ///< above 0
};

/// The masses of an auxiliary model, and ln sum exp(logit) of the main model's logits.
struct AuxiliaryMixture {
  std::vector<TokenMass> shares;  ///< each token at most once
  double log_sum = 0;             ///< valid if `shares` is not empty
};

/// What an auxiliary model sees of the main model's distribution.
struct AuxiliaryView {
  /// By token id. If tokens() succeeds, only its tokens need to be valid; others may be masked or
  /// missing.
  std::span<const float> logits;
  Candidate largest;  ///< finite
  /// Of the whole row; nullptr: `logits` is a whole row to compute them from.
  const kernels::LogSumExp* sums = nullptr;
};

/// Mixes p = (1 - w) p_model + p_other, where p_other sums to w < 1 over a few tokens. The result
/// must depend only on the logits and the preceding tokens, so that a replayed generation is
/// identical; state kept between calls may only save work. One object serves one sampler at a time.
class AuxiliaryLm {
 public:
  virtual ~AuxiliaryLm() = default;

  /// Appends every token whose logit mix() may read or that may receive mass after `history`;
  /// duplicates and ids beyond the vocabulary are allowed. Does not affect mix(). Errors: those of
  /// mix(); kUnsupported: mix() may read any logit.
  virtual Status tokens(std::span<const int32_t> /*history*/, std::vector<int32_t>& /*out*/) {
    return unsupported("This auxiliary model does not declare which logits it reads.");
  }

  /// Fills `mixture` with p_other; without shares the model's distribution is unchanged. Errors:
  /// kIo, kInvalidData (its data is damaged).
  virtual Status mix(const AuxiliaryView& view, std::span<const int32_t> history,
                     AuxiliaryMixture& mixture) = 0;

  /// The auxiliary model's most likely next token with its probability; id -1 if it has none. Used
  /// for drafts only: the output does not depend on it.
  virtual TokenMass likeliest(std::span<const int32_t> /*history*/) { return {-1, 0}; }
};

/// Writes the logits of the mixture to `out`. Tokens without a share keep their logit; the others
/// get ln(p + mass / (1 - w)) + ln sum exp(logit). Masked tokens stay masked. `largest`: of
/// `logits`. Returns the largest logit of `out`.
Candidate mix_logits(std::span<const float> logits, const Candidate& largest,
                     const AuxiliaryMixture& mixture, std::vector<float>& out);
/// The same for a sorted list that contains all tokens with shares; it is sorted again afterwards.
void mix_logits(std::span<Candidate> known, const AuxiliaryMixture& mixture);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_AUXILIARY_LM_H_
