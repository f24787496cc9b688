// The log-probabilities of a prompt's tokens.
#ifndef CHIMERE_ENGINE_PROMPT_SCORER_H_
#define CHIMERE_ENGINE_PROMPT_SCORER_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/step.h"
#include "sampling/sampler.h"

namespace chimere::engine {

/// Scores the tokens of a prompt after the first one: the log-probabilities are those that
/// generating them would have given. The prompt's rows are computed as decode rows, which have the
/// same bits whether a token is generated, a draft or known before.
class PromptScorer {
 public:
  /// `sampling`: of the generation; its `logprobs` (-1 as 0) and `auxiliary` count. `prompt` must
  /// outlive it. `vocabulary`: logits per row. `most_partial`: largest logits that partial logits
  /// may have; 0: whole rows.
  PromptScorer(const sampling::SamplingParams& sampling, std::span<const int32_t> prompt,
               int64_t vocabulary, int32_t most_partial);

  /// Turns `rows`, prompt rows from `position` on, into rows that can be scored.
  void plan(int64_t position, model::SequenceRows& rows);
  /// The rows planned last return partial logits.
  bool partial() const { return partial_; }
  /// Rows planned and not scored yet, each with logits.
  int64_t planned() const { return planned_; }
  /// Scores the tokens after the planned rows. `result`: of these rows only. Errors: those of
  /// Sampler::sample().
  Status score(const model::StepResult& result);
  /// The tokens scored so far.
  std::vector<sampling::Sampled> take() { return std::move(scored_); }

 private:
  Result<sampling::Sampled> score(const model::StepResult& result, int64_t row, size_t position);

  sampling::Sampler sampler_;
  std::span<const int32_t> prompt_;
  bool partial_;
  int64_t position_ = 0;  ///< of the first planned row
  int64_t planned_ = 0;
  std::vector<uint32_t> only_;                ///< the token to be scored, as the only one allowed
  std::vector<sampling::Candidate> largest_;  ///< scratch
  std::vector<sampling::Sampled> scored_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PROMPT_SCORER_H_
