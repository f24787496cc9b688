// One request on its way through the engine.
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
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/speculation/speculator.h"
#include "engine/stop_matcher.h"
#include "model/step.h"
#include "state/state_store.h"
#include "text/tokenizer.h"

namespace chimere::engine {

using RequestId = int64_t;

/// Knows what a request's next rows are and what its sampled tokens mean; the engine decides when
/// they are computed. First the prompt, chunk by chunk, then one row for each sampled token.
class Generation {
 public:
  using ReadLogits = std::function<Status(int64_t row, std::span<float> out)>;
  struct Options {
    int64_t context;      ///< most tokens of prompt and generation
    bool cached;          ///< the states at prefix_points() of the prompt are to be kept
    int64_t vocabulary;   ///< logits of a row
    bool partial_logits;  ///< the model is to give partial logits of logits where they are enough
  };

  /// Tokenizer and lessons must outlive the generation.
  Generation(RequestId id, Request request, std::span<const int32_t> message_starts,
             const Options& options, const text::Tokenizer& tokenizer, DraftStatistics& statistics);

  RequestId id() const { return id_; }
  const std::string& owner() const { return request_.owner; }
  bool finished() const { return finished_; }
  bool prompt_done() const { return position_ == prompt_size(); }
  /// Tokens behind it in the state once it runs: what its KV pages must hold before its next row.
  int64_t tokens_seen() const { return position_ + decoded_; }
  int64_t prompt_size() const { return static_cast<int64_t>(request_.prompt.size()); }
  int64_t position() const { return position_; }
  const Request& request() const { return request_; }
  /// Tokens of the prompt and the generation.
  std::span<const int32_t> history() const { return history_; }
  /// Positions in the prompt where its chunks end.
  std::span<const int64_t> chunk_ends() const { return chunk_ends_; }

  /// Before start(): the prompt's first tokens are in this state.
  void resume_from(state::Checkpoint state, CacheTier tier);
  /// The prompt is to be computed whole after all; gives the state's memory back.
  void drop_prefix();
  bool has_prefix() const { return from_.has_value(); }
  CacheTier prefix_tier() const { return outcome_.reused_from; }
  PrefixCache::Search search;  ///< of the prompt in the prefix cache

  /// The positions of the prompt whose states are wanted.
  std::span<const int64_t> points() const { return points_; }
  bool at_point() const;
  state::Checkpoint checkpoint() const { return state_->checkpoint(); }

  /// Takes a sequence (of the prefix, if it can be used) before the first step, and after
  /// suspend(). Errors: kOutOfMemory when the stored state does not fit.
  Status start(state::StateStore& store);
  bool running() const { return state_ != nullptr; }
  bool suspended() const { return !suspended_.empty(); }
  /// Copies the state out of the store and gives its pages back; start() brings the same bits back.
  void suspend();

  /// Size of the prompt's next chunk behind the `taken` rows that the step already has of it; 0 if
  /// there is none, or if the step must end there because the state at this point is to be kept.
  int32_t next_chunk(int64_t taken) const;
  /// Rows of the step that are `rows` (whole chunks) of the prompt.
  model::SequenceRows prompt_rows(int64_t rows);
  /// The newest token, and its drafts behind it.
  model::SequenceRows decode_rows();

  /// The row of the newest token with a choice on the GPU, if it needs nothing else: for a step
  /// that is launched. `behind`: that the step in flight chooses the newest token, so that the row
  /// is fed.
  std::optional<model::SequenceRows> async_row(bool behind);

  int64_t decode_size() const {
    return 1 + (speculator_ ? static_cast<int64_t>(speculator_->drafts().size()) : 0);
  }

  /// Between two steps of a request that is decoding: its drafts, nullptr if it has none, and how
  /// many rows behind the newest token make sense.
  Speculator* speculator() { return speculator_ ? &*speculator_ : nullptr; }
  int32_t max_drafts() const;
  model::DraftStart draft_start() const { return {state_.get(), history_.back()}; }

  /// The rows of the last step are computed.
  void advance_prompt(int64_t rows);
  void advance_decode() { ++decoded_; }
  /// Chooses the next token from the logits of the newest row, and the ones behind it from those of
  /// its drafts as long as each draft is the token. `result` has the rows of this request alone:
  /// as an partial logits if from_partial_logits(). Touches nothing but this request: the choices
  /// of several may be made at the same time. `read_logits`: Model::read_logits() of these rows,
  /// where an partial logits does not decide.
  void choose(const model::StepResult& result, const ReadLogits& read_logits);
  /// The token that a step in flight chooses for this request ends its generation in any case.
  bool ends_with_next() const { return max_drafts() < 1; }
  /// The rows that were planned last give partial logits, not all logits.
  bool from_partial_logits() const { return from_partial_logits_; }
  /// Adds the chosen tokens to the generation, tells the caller, notices the end, and takes back
  /// the rows of drafts that were wrong. Returns how many tokens were added.
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

  void use_prefix();
  /// Asks for partial logits of the rows' logits where these are enough.
  void want_partial_logits(model::SequenceRows& rows);
  Result<sampling::Sampled> sample(std::span<const float> logits);
  Result<sampling::Sampled> sample_partial(const model::StepResult& result, int64_t row,
                                           const ReadLogits& read_logits);
  /// Of the next row. False if no other row is to be looked at.
  bool choose(Result<sampling::Sampled> sampled);
  void accept(Choice choice);
  void settle_drafts();
  /// Most tokens that the generation can have.
  int32_t max_tokens() const;
  bool ends_generation(int32_t token) const;

  RequestId id_;
  Request request_;
  int64_t context_;
  int64_t vocabulary_;
  const text::Tokenizer& tokenizer_;
  std::vector<int64_t> chunk_ends_;
  std::vector<int64_t> points_;
  int64_t keep_at_ = -1;                   ///< the chunk end whose state the outcome keeps
  std::optional<state::Checkpoint> from_;  ///< where start() continues
  int64_t position_ = 0;                   ///< prompt tokens computed
  int64_t decoded_ = 0;                    ///< sampled tokens computed
  std::unique_ptr<state::SequenceState> state_;
  std::vector<uint8_t> suspended_;
  std::vector<int32_t> history_;  ///< prompt and generation
  sampling::Sampler sampler_;
  std::optional<Speculator> speculator_;
  std::optional<Thinking> thinking_;
  sampling::Needed needed_;  ///< without any largest: all logits
  bool from_partial_logits_ = false;
  std::vector<std::vector<int32_t>> selected_;  ///< of the rows that were planned last
  std::vector<sampling::Candidate> largest_;    ///< here for its memory
  std::vector<sampling::Candidate> known_;      ///< likewise
  std::vector<float> logits_;                   ///< likewise
  std::vector<Choice> choices_;                 ///< from choose() to accept()

  text::StreamDecoder decoder_;
  StopMatcher stops_;
  Outcome outcome_;
  FinishReason reason_ = FinishReason::kError;
  bool finished_ = false;
  Clock::time_point started_;
  Clock::time_point first_token_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_GENERATION_H_
