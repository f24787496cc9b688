// The constraint on the output of one generation: which tokens may come next.
#ifndef CHIMERE_ENGINE_OUTPUT_CONSTRAINT_H_
#define CHIMERE_ENGINE_OUTPUT_CONSTRAINT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "constraints/constraint.h"
#include "kernels/api.h"
#include "text/tokenizer.h"

namespace chimere::engine {

/// Restricts the tokens of a generation to those that a constraint allows. Where only one text can
/// follow, it also fixes the tokens: those that the tokenizer gives for that text. The restriction
/// depends on the generation's tokens only, so that drafts, batching and suspension change nothing.
class OutputConstraint {
 public:
  /// `vocabulary`: logits in a row, at least as many as there are tokens. The tokenizer must
  /// outlive it.
  OutputConstraint(constraints::Matcher matcher, const text::Tokenizer& tokenizer,
                   int64_t vocabulary);

  /// Memory for so many tokens.
  void reserve(size_t tokens);
  /// Any token may come next, except one that ends the generation.
  bool unconstrained();
  /// The tokens that may come next, [mask_words(vocabulary)], valid until the next call. Errors:
  /// kOutOfMemory (the constraint has too many states), kUnsupported (this generation took too much
  /// work: constraints/work.h).
  Result<kernels::TokenMask> allowed();
  /// A computation for another thread, which returns what the owner's thread calls afterwards.
  using Job = std::function<std::function<void()>()>;
  /// Computes what allowed() and unconstrained() return, unless that takes more work than `units`:
  /// then passes it to `post`, and is false until it is done. Also false while another generation
  /// of the same constraint has such a job.
  bool prepare(uint64_t units, const std::function<void(Job)>& post);
  /// The same without a job.
  bool quick(uint64_t units = constraints::kWorkPerStep) {
    return certain() || matcher_.prepare(units);
  }
  /// Appends a token. False if it is not allowed: allowed() then excludes it, and another one must
  /// be sampled (masks contain a few tokens too many: names of properties written with escapes).
  /// Errors: those of allowed().
  Result<bool> accept(int32_t token);
  /// The next token is certain: allowed() has no other.
  bool certain() const { return next_certain_ < certain_.size(); }
  /// The number of tokens that are certain from here on, as far as it is known.
  int32_t certain_tokens() const { return static_cast<int32_t>(certain_.size() - next_certain_); }
  /// Nothing but the end of the generation may follow.
  bool finished();
  /// Up to `most` tokens that are certain or likely to come next. Valid until the next call.
  std::span<const int32_t> expected(int32_t most);

  /// Appends a draft if it is allowed after those before it.
  bool push_draft(int32_t token);
  /// Takes all drafts back.
  void drop_drafts();

 private:
  struct Ahead {
    constraints::Matcher matcher;
    std::shared_ptr<const int> lease;
    bool done = false;
  };
  bool advance(int32_t token);
  /// Copies a mask to `mask_`, without the refused tokens.
  kernels::TokenMask own_mask(std::span<const uint32_t> mask);
  void find_certain();

  constraints::Matcher matcher_;
  std::shared_ptr<Ahead> ahead_;  ///< the job that prepares matcher_
  const text::Tokenizer& tokenizer_;
  std::vector<uint32_t> mask_;
  std::vector<int32_t> tokens_;    ///< of the generation, with the drafts
  std::vector<int32_t> certain_;   ///< tokens of a text that must follow
  std::vector<int32_t> expected_;  ///< drafts
  size_t next_certain_ = 0;
  std::vector<int32_t> refused_;  ///< at this position
  int32_t drafts_ = 0;
  std::vector<int32_t> certain_before_drafts_;
  size_t next_before_drafts_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_OUTPUT_CONSTRAINT_H_
