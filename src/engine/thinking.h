// Control of a reasoning model: budget, early exit, and a guaranteed answer. Forced ends as in s1
// (Muennighoff et al. 2025, arXiv:2501.19393); early exit and suppression of doubt tokens by
// certainty.
#ifndef CHIMERE_ENGINE_THINKING_H_
#define CHIMERE_ENGINE_THINKING_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/logit_row.h"
#include "kernels/api.h"
#include "sampling/sampler.h"
#include "text/reasoning_tags.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct ThinkingParams {
  int32_t budget = 1024;       ///< most tokens of reasoning, including the forced closing sentence
  int32_t least = 0;           ///< shorter reasoning that ends with low certainty is resumed
  int32_t answer_tokens = 64;  ///< of max_tokens, reserved for the answer (at most half)
  /// Certainty (below) above which reasoning ends and doubt tokens are suppressed; above 1: never.
  double certain = 0.97;
  double uncertain = 0.6;  ///< certainty below which reasoning that ends early is resumed

  // Tokens of the model; thinking_params() fills them in.
  int32_t open = -1;                    ///< the tag that opens reasoning
  int32_t close = -1;                   ///< and the one that closes it
  std::vector<int32_t> forced_closing;  ///< sentence inserted before a forced end
  std::vector<int32_t> after_close;     ///< what the chat template writes after `close`
  std::vector<int32_t> resume;          ///< text that resumes reasoning
  std::vector<int32_t> loop_breaker;    ///< text that breaks a loop in the reasoning
  std::vector<int32_t> suppressed;      ///< sorted; tokens that begin another round of doubt
};

/// The tokens of a model for `budget`; nothing if its tags are no tokens. Scans the whole
/// vocabulary: a few dozen milliseconds for 248k tokens.
std::optional<ThinkingParams> thinking_params(const text::Tokenizer& tokenizer,
                                              const text::ReasoningTags& tags, int32_t budget);

/// Certainty of a distribution over `vocabulary` tokens, from 0 to 1: 0.625 p_max + 0.375 (1 - H /
/// ln V).
double certainty(const kernels::LogSumExp& sums, int64_t vocabulary);

struct ThinkingCounts {
  int32_t tokens = 0;  ///< of reasoning, without the tags
  enum class End { kNone, kItself, kBudget, kCertain, kLoop } end = End::kNone;
  int32_t resumed = 0;            ///< ends that were replaced by `resume`
  int32_t suppressed_tokens = 0;  ///< tokens resampled because they began a doubt
};
/// "none", "itself", "budget", "certain", "loop".
const char* thinking_end_name(ThinkingCounts::End end);

/// Reasoning control of one generation. Replaces Sampler::sample(): samples the token or returns a
/// forced one. Its decisions depend only on the logits of the generation's own tokens, so that
/// drafts, batching and suspension change nothing. Guarantees at most `budget` tokens of reasoning,
/// at most one block of reasoning, and no end of the generation before the reasoning has ended and
/// something other than white space has followed.
class Thinking {
 public:
  /// `prompt` determines whether the generation begins inside reasoning. `max_tokens`: limit of the
  /// generation; -1: none. The tokenizer must outlive it.
  Thinking(ThinkingParams params, std::span<const int32_t> prompt, int32_t max_tokens,
           const text::Tokenizer& tokenizer);

  /// Reads the whole row only if the sampled token must be replaced by another sample, or if the
  /// log-probability of a forced token is requested. Errors: those of LogitRow::sample().
  Result<sampling::Sampled> choose(sampling::Sampler& sampler, LogitRow& row,
                                   std::span<const int32_t> history);

  bool inside() const { return phase_ == Phase::kReasoning; }
  const ThinkingCounts& counts() const { return counts_; }

 private:
  enum class Phase { kBefore, kReasoning, kClosed, kAnswer };
  static constexpr size_t kWindow = 32;
  static constexpr size_t kPeriods = 64;

  void begin();
  void add_forbidden(std::vector<int32_t>& forbidden) const;
  void decide(int32_t drawn);
  void close(ThinkingCounts::End end, bool with_forced_closing);
  void note(int32_t token, bool forced);
  static Result<sampling::Sampled> as_forced(sampling::Sampled drawn, int32_t token, LogitRow& row,
                                             const sampling::SamplingParams& params);
  bool is_certain() const;
  bool looping() const;
  bool ends_sentence(int32_t token) const;

  ThinkingParams params_;
  const text::Tokenizer& tokenizer_;
  int32_t tokens_left_;  ///< of the generation; -1: no limit
  Phase phase_ = Phase::kBefore;
  std::deque<int32_t> forced_;
  bool closing_ = false;  ///< the forced tokens end the reasoning
  ThinkingCounts counts_;
  std::array<double, kWindow> certainties_{};
  int32_t certainties_seen_ = 0;
  int32_t certain_for_ = 0;  ///< consecutive tokens with a mean above `certain`
  bool sentence_ended_ = true;
  std::vector<int32_t> reasoning_;
  /// [p - 1]: consecutive tokens equal to the one p positions earlier.
  std::array<int32_t, kPeriods> repeated_{};
  bool loop_broken_ = false;
  std::vector<float> masked_;       ///< scratch
  std::vector<int32_t> forbidden_;  ///< scratch
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_THINKING_H_
