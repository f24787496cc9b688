// Control of a model that thinks before it answers: how long, when it may stop, and that an answer
// follows. Budgets by forced ends (s1, Muennighoff et al. 2025, arXiv:2501.19393), ends and
// suppressed doubts by certainty.
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
#include "sampling/sampler.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct ThinkingParams {
  int32_t budget = 1024;       ///< most tokens of the reasoning, its closing sentence included
  int32_t least = 0;           ///< shorter reasoning that end uncertain are taken up again
  int32_t answer_tokens = 64;  ///< of max_tokens, kept for the answer (at most half of them)
  /// Certainty (below) from which on reasoning is over, and doubts are held back; above 1: never.
  double certain = 0.97;
  double uncertain = 0.6;  ///< certainty below which reasoning that ends early is taken up again

  // Tokens of the model: see thinking_params().
  int32_t open = -1;   ///< begins reasoning
  int32_t close = -1;  ///< ends it
  std::vector<int32_t>
      forced_closing;                 ///< the closing sentence that is written before a forced end
  std::vector<int32_t> behind;        ///< what the model's template writes behind `close`
  std::vector<int32_t> resume;        ///< what takes reasoning up again
  std::vector<int32_t> loop_breaker;  ///< what is said to reasoning that goes round in circles
  std::vector<int32_t> suppressed;    ///< sorted; tokens that begin another round of doubt
};

/// The tokens of a model for `budget`; nothing if it has no <think> and </think>. Looks at the
/// whole vocabulary: a few dozen milliseconds for 248k tokens.
std::optional<ThinkingParams> thinking_params(const text::Tokenizer& tokenizer, int32_t budget);

/// How sure a distribution is, from 0 to 1: 0.625 p_max + 0.375 (1 - H / ln V).
double certainty(std::span<const float> logits);

struct ThinkingCounts {
  int32_t tokens = 0;  ///< of reasoning, without their tags
  enum class End { kNone, kItself, kBudget, kCertain, kLoop } end = End::kNone;
  int32_t resumed = 0;            ///< ends that were put off
  int32_t suppressed_tokens = 0;  ///< tokens drawn again because they began a doubt
};
/// "none", "itself", "budget", "certain", "loop".
const char* thinking_end_name(ThinkingCounts::End end);

/// Of one generation. Takes the place of Sampler::sample(): draws the token, or says which one must
/// come. What it says depends on the logits of the generation's own tokens alone, so that drafts,
/// company and pauses change nothing. While a generation has reasoning: never more than `budget`
/// tokens of it, never a second one, and no end of the generation before the reasoning has ended
/// and something else than white space has followed.
class Thinking {
 public:
  /// Whether the generation begins inside reasoning follows from `prompt`. `max_tokens` of the
  /// generation; -1: no limit. The tokenizer must outlive it.
  Thinking(ThinkingParams params, std::span<const int32_t> prompt, int32_t max_tokens,
           const text::Tokenizer& tokenizer);

  /// Errors: those of Sampler::sample().
  Result<sampling::Sampled> choose(sampling::Sampler& sampler, std::span<const float> logits,
                                   std::span<const int32_t> history);

  bool inside() const { return phase_ == Phase::kReasoning; }
  const ThinkingCounts& counts() const { return counts_; }

 private:
  enum class Phase { kBefore, kReasoning, kBehind, kAnswer };
  static constexpr size_t kWindow = 32;
  static constexpr size_t kPeriods = 64;

  void begin();
  void forbid_where_needed(std::vector<int32_t>& forbidden) const;
  void decide(int32_t drawn);
  void close(ThinkingCounts::End end, bool with_forced_closing);
  void note(int32_t token, bool forced);
  bool sure() const;
  bool in_circles() const;
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
  int32_t certain_for_ = 0;  ///< tokens for which the mean has been above `certain`
  bool sentence_ended_ = true;
  std::vector<int32_t> reasoning_;
  std::array<int32_t, kPeriods> repeated_{};  ///< [p - 1]: tokens that equal the one p before
  bool loop_broken_ = false;
  std::vector<float> masked_;  ///< here for its memory
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_THINKING_H_
