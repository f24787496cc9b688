// Drafts from a drafter's logits, drawn like the generation's tokens.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api.h"
#include "sampling/params.h"
#include "sampling/sampler.h"

namespace chimere::engine {

struct SampledDraft {
  int32_t token = -1;      ///< -1: the logits are invalid
  double probability = 0;  ///< of the token, at the generation's temperature
};

/// Uses the random numbers of the generation, which maximises the chance that a draft equals the
/// token that is sampled there. Leaves out what depends on the whole vocabulary or the preceding
/// text: drafts need not be exact.
class DraftSampler {
 public:
  explicit DraftSampler(const sampling::SamplingParams& sampling);

  /// The draft at `position` of the text. `logits`: of the first tokens of the vocabulary.
  SampledDraft sample(std::span<const float> logits, size_t position);

  /// How many of the largest logits decide a draft, with its probability to a good approximation;
  /// 0: the whole row is needed.
  int32_t largest() const { return largest_; }
  /// Whether `sums` must be given.
  bool sums() const { return sums_; }
  /// The same from the largest() largest logits; no draft where they do not decide it.
  SampledDraft sample(std::span<const kernels::TopLogit> largest, const kernels::LogSumExp* sums,
                      size_t position);

 private:
  sampling::Sampler sampler_;
  double scale_;  ///< 1 / temperature
  int32_t largest_ = 0;
  bool sums_ = false;                       ///< for the token or for its probability
  bool draws_with_sums_ = false;            ///< for the token
  std::vector<sampling::Candidate> known_;  ///< scratch
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_
