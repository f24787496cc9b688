// Drafts from a drafter's logits, drawn like the generation's tokens.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <span>

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

 private:
  sampling::Sampler sampler_;
  double scale_;  ///< 1 / temperature
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_SAMPLER_H_
