// A second opinion on the next token, mixed into the model's distribution before anything else.
#ifndef CHIMERE_SAMPLING_AUXILIARY_LM_H_
#define CHIMERE_SAMPLING_AUXILIARY_LM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/log_softmax.h"

namespace chimere::sampling {

/// Probability that the mixture takes from the other distribution.
struct TokenMass {
  int32_t id = 0;
  float mass = 0;  ///< above 0
};

/// What a source wants, and ln sum exp(logit) of the model's logits, which it had to know.
struct AuxiliaryMixture {
  std::vector<TokenMass> shares;  ///< each token once
  double log_sum = 0;             ///< where there are shares
};

/// What a source sees of the model's distribution.
struct AuxiliaryView {
  /// By id. If tokens() says so, those of its tokens alone; others are masked, or beyond the end.
  std::span<const float> logits;
  Candidate largest;                         ///< a number, not masked
  const kernels::LogSumExp* sums = nullptr;  ///< nullptr: `logits` are whole, and these their sums
};

/// Mixes p = (1 - w) p_model + p_other, where p_other sums up to w < 1 over a few tokens. The
/// result may depend on the logits and the tokens before alone, so that generations replay; what is
/// kept from call to call only saves work. One object serves one sampler at a time.
class AuxiliaryLm {
 public:
  virtual ~AuxiliaryLm() = default;

  /// Adds every token that mix() behind `history` may look at or give a share, some of them more
  /// than once; ids may be beyond the vocabulary. Changes nothing that mix() sees. Errors: those of
  /// mix(); kUnsupported: mix() may look at any.
  virtual Status tokens(std::span<const int32_t> /*history*/, std::vector<int32_t>& /*out*/) {
    return unsupported("This source does not say which logits it looks at.");
  }

  /// Fills `mixture` with p_other; without shares the model's distribution stays as it is. Errors:
  /// kIo, kInvalidData (its source is damaged).
  virtual Status mix(const AuxiliaryView& view, std::span<const int32_t> history,
                     AuxiliaryMixture& mixture) = 0;

  /// The token that the source itself thinks most likely behind a text, with its probability; id -1
  /// if it knows none. A guess for drafts: nothing else depends on it.
  virtual TokenMass likeliest(std::span<const int32_t> /*history*/) { return {-1, 0}; }
};

/// Writes the mixture's logits to `out`: those of unlisted tokens stay, so that only the few others
/// change: ln(p + mass / (1 - w)) + ln sum exp(logit). Masked tokens stay masked. Returns the new
/// largest one, given the old.
Candidate mix_logits(std::span<const float> logits, const Candidate& largest,
                     const AuxiliaryMixture& mixture, std::vector<float>& out);
/// The same of some tokens, all those with shares among them, which are in order before and
/// afterwards.
void mix_logits(std::span<Candidate> known, const AuxiliaryMixture& mixture);

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_AUXILIARY_LM_H_
