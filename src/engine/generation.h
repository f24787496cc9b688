// The life of one request in the engine.
#ifndef CHIMERE_ENGINE_GENERATION_H_
#define CHIMERE_ENGINE_GENERATION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/logit_row.h"
#include "engine/output_constraint.h"
#include "engine/prefix_cache.h"
#include "engine/prompt_scorer.h"
#include "engine/request.h"
#include "engine/speculation/drafters.h"
#include "engine/speculation/sequence_drafts.h"
#include "engine/stop_matcher.h"
#include "model/step.h"
#include "state/state_store.h"
#include "text/tokenizer.h"

namespace chimere::engine {

using RequestId = int64_t;

/// Knows the next rows of a request and what its sampled tokens mean; the engine decides when rows
/// are computed. First the prompt, chunk by chunk, then one row per sampled token. Used by the
/// engine's thread alone, except for choose().
class Generation {
 public:
  using ReadLogits = std::function<Status(int64_t row, std::span<float> out)>;
  struct Options {
    int64_t context;      ///< most tokens of prompt and generation together
    bool cached;          ///< the prefix cache keeps the states at prefix_points() of the prompt
    int64_t vocabulary;   ///< logits per row
    bool partial_logits;  ///< request partial logits instead of whole rows where they suffice
  };

  /// Tokenizer and drafters must outlive the generation.
  Generation(RequestId id, Request request, std::span<const int32_t> message_starts,
             const Options& options, const text::Tokenizer& tokenizer, Drafters& drafters);

  RequestId id() const { return id_; }
  const std::string& owner() const { return request_.owner; }
  bool finished() const { return finished_; }
  bool prompt_done() const { return position_ == prompt_size(); }
  /// Tokens in the sequence's state once it runs: what its KV pages must hold before the next row.
  int64_t tokens_seen() const { return position_ + decoded_; }
  int64_t prompt_size() const { return static_cast<int64_t>(request_.prompt.size()); }
  int64_t position() const { return position_; }
  const Request& request() const { return request_; }
  /// Tokens of the prompt and the generation.
  std::span<const int32_t> history() const { return history_; }
  /// Ascending positions in the prompt where its chunks end.
  std::span<const int64_t> chunk_ends() const { return chunk_ends_; }

  /// Before start(): continues from a state of the prompt's first tokens. `context_rows`: what a
  /// drafter has of them; nullptr: nothing.
  void resume_from(state::Checkpoint state, CacheTier tier,
                   std::shared_ptr<const state::Checkpoint> context_rows);
  /// Undoes resume_from(): the prompt is computed whole, and the state's memory is released.
  void drop_prefix();
  bool has_prefix() const { return from_.has_value(); }
  CacheTier prefix_tier() const { return outcome_.reused_from; }
  PrefixCache::Search search;  ///< state of the prompt's look-up in the prefix cache

  /// Prompt positions whose states the prefix cache keeps.
  std::span<const int64_t> points() const { return points_; }
  bool at_point() const;
  state::Checkpoint checkpoint() const { return state_->checkpoint(); }
  /// What a drafter has of the first `position` tokens; nullptr: nothing.
  std::shared_ptr<const state::Checkpoint> context_rows(int64_t position) const {
    return drafts_ ? drafts_->context_rows(position) : nullptr;
  }

  /// Creates or restores the sequence, before the first step and after suspend(). Errors:
  /// kOutOfMemory when the suspended state does not fit.
  Status start(state::StateStore& store);
  bool running() const { return state_ != nullptr; }
  bool suspended() const { return !suspended_.empty(); }
  /// Copies the state out of the store and frees its pages; start() restores the same bits.
  void suspend();

  /// Rows of the prompt's next chunk after the `taken` rows that the step already has. 0 if the
  /// prompt is complete, or if the step must end there because the state at this point is kept.
  int32_t next_chunk(int64_t taken) const;
  /// A step that computes the next `rows` rows of the prompt returns logits of this request: the
  /// prompt ends there, or its tokens are scored.
  bool samples(int64_t rows) const { return scorer_ || position_ + rows == prompt_size(); }
  /// Logits of prompt rows in the step planned last.
  int64_t prompt_logits() const { return scorer_ ? scorer_->planned() : 1; }
  /// Replaces `out` by the next `rows` rows (whole chunks) of the prompt.
  void prompt_rows(int64_t rows, model::SequenceRows& out);
  /// Replaces `out` by the newest token, followed by its drafts.
  void decode_rows(model::SequenceRows& out);
  /// Whether a decode row is next: not if the steps in flight sample the last token that the
  /// generation can have.
  bool may_decode() const;
  /// Computes the mask of the next token, or has it computed by `post` (OutputConstraint::prepare).
  void prepare_mask(uint64_t units, const std::function<void(OutputConstraint::Job)>& post) {
    held_ = constraint_ && !finished_ && !constraint_->prepare(units, post);
  }
  /// No row of it is computed before its mask is known.
  bool held() const { return held_; }

  /// For asynchronous launches (OverlapPipeline). Whether the next row can be launched before its
  /// token and those of later rows are known on the host: not with drafts, and not if the host
  /// samples its token.
  bool may_launch(bool decodes, bool samples) const;
  /// Makes the device sample the token of `rows`, which are planned, and take the token of a decode
  /// row from the step in flight. Requires may_launch().
  void choose_on_device(model::SequenceRows& rows) const;
  /// The rows have been launched; choose() follows when the step is complete.
  void token_launched() { ++tokens_launched_; }

  int64_t decode_size() const {
    return 1 + (drafts_ ? static_cast<int64_t>(drafts_->drafts().size()) : 0);
  }

  /// nullptr: the request uses no drafter.
  SequenceDrafts* drafts() const { return drafts_.get(); }
  /// For a decoding request with drafts(), between two steps.
  DraftingSequence drafting() const {
    return {drafts_.get(), history_, state_.get(), max_drafts()};
  }

  /// To be called when the rows of the last step are computed or launched.
  void advance_prompt(int64_t rows);
  void advance_decode() { ++decoded_; }
  /// To be called when drafters have observed the rows of the last step.
  void rows_observed();
  /// Samples the next token from the logits of the newest row, then from those of each draft as
  /// long as the drafts match. `result` holds the rows of this request only: partial logits if
  /// from_partial_logits(), else whole rows. `read_logits` reads a whole row (Model::read_logits())
  /// where partial logits do not decide. Touches nothing but this request, so several requests may
  /// sample in parallel.
  void choose(const model::StepResult& result, const ReadLogits& read_logits);
  /// The rows planned last return partial logits instead of whole rows.
  bool from_partial_logits() const { return from_partial_logits_; }
  struct KeptRows {
    std::span<const int32_t> tokens;
    int32_t position = 0;  ///< of the first one
  };
  /// Between choose() and accept(): the rows of the last step that stay in the sequence, with
  /// `prompt_rows` above 0 those of the prompt, else the newest token and the accepted drafts.
  KeptRows kept_rows(int64_t prompt_rows) const;
  /// Appends the sampled tokens, calls on_token, detects the end of the generation and rolls back
  /// the rows of rejected drafts. Returns the number of tokens added.
  int32_t accept();

  /// Ends the request and calls on_finish.
  void finish(FinishReason reason, Error error = {});
  FinishReason reason() const { return reason_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    Result<sampling::Sampled> sampled;
    bool in_reasoning = false;
  };

  void reserve_tokens();
  void use_prefix();
  void use_continuation();
  /// The state for Outcome::state.
  std::vector<uint8_t> kept_state();
  /// Requests partial logits for the rows where they suffice.
  void want_partial_logits(model::SequenceRows& rows);
  /// choose() for prompt rows that are scored.
  void choose_scored(const model::StepResult& result, const ReadLogits& read_logits);
  /// Samples from a whole row.
  Result<sampling::Sampled> sample_whole(const model::StepResult& result, int64_t row,
                                         const ReadLogits& read_logits);
  /// The tokens allowed in each row whose partial logits are requested.
  void want_masks(model::SequenceRows& rows);
  Result<sampling::Sampled> sample(LogitRow& row);
  /// Without the constraint.
  Result<sampling::Sampled> sample_any(LogitRow& row);
  Result<sampling::Sampled> sample_partial(const model::StepResult& result, int64_t row,
                                           const ReadLogits& read_logits);
  /// Records the token of the next row. False if no further row is to be sampled.
  bool choose(Result<sampling::Sampled> sampled);
  void accept(Choice choice, bool from_draft);
  /// Returns how many drafts were accepted.
  int32_t commit_drafts();
  /// The most drafts that can be of use.
  int32_t max_drafts() const;
  /// Most tokens that the generation can have.
  int32_t max_tokens() const;
  bool ends_generation(int32_t token) const;
  /// min_tokens are generated or launched.
  bool may_end() const;
  kernels::TokenMask continuing_tokens();
  /// What a token adds to the text of the generation.
  std::string text_bytes(int32_t token) const;

  RequestId id_;
  Request request_;
  int64_t context_;
  int64_t vocabulary_;
  const text::Tokenizer& tokenizer_;
  std::vector<int64_t> chunk_ends_;
  std::vector<int64_t> points_;
  int64_t keep_at_ = -1;                   ///< chunk end whose state becomes Outcome::prefix
  std::optional<state::Checkpoint> from_;  ///< state that start() continues from
  std::shared_ptr<const state::Checkpoint> from_rows_;  ///< a drafter's, of the same tokens
  int64_t position_ = 0;                                ///< prompt tokens computed
  int64_t decoded_ = 0;                                 ///< generated tokens computed
  std::unique_ptr<state::SequenceState> state_;
  std::vector<uint8_t> suspended_;
  std::vector<int32_t> history_;  ///< prompt and generation
  int64_t given_ = 0;             ///< tokens of the prompt and of the continuation
  sampling::Sampler sampler_;
  std::optional<OutputConstraint> constraint_;
  bool held_ = false;
  std::unique_ptr<SequenceDrafts> drafts_;
  std::optional<Thinking> thinking_;
  bool in_reasoning_ = false;  ///< the newest token, or the prompt's end; with `thinking_` only
  std::optional<PromptScorer> scorer_;  ///< until on_prompt_logprobs is called
  sampling::Needed needed_;             ///< `largest` 0: all logits
  bool from_partial_logits_ = false;
  std::vector<std::vector<int32_t>> selected_;  ///< ids requested per planned row
  std::vector<std::vector<uint32_t>> masks_;    ///< allowed tokens per planned row
  size_t verified_ = 0;                         ///< planned rows with a known mask
  std::vector<sampling::Candidate> largest_;    ///< scratch
  std::vector<sampling::Candidate> known_;      ///< scratch
  std::vector<float> logits_;                   ///< scratch
  std::vector<Choice> choices_;                 ///< from choose() to accept()
  int32_t tokens_launched_ = 0;                 ///< that the steps in flight sample

  text::StreamDecoder decoder_;
  std::vector<uint32_t> continuing_;  ///< empty: not needed yet
  StopMatcher stops_;
  Outcome outcome_;
  FinishReason reason_ = FinishReason::kError;
  bool finished_ = false;
  Clock::time_point started_;
  Clock::time_point first_token_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_GENERATION_H_
