#include "engine/generation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "engine/prefix_points.h"
#include "model/chunking.h"

namespace chimere::engine {
namespace {

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

/// Leaves `selected`, whose memory is reused.
void request_whole_rows(model::SequenceRows& rows) {
  rows.top = 0;
  rows.sums = false;
  rows.choice.reset();
  rows.async_token = false;
  rows.masks.clear();
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContextFull:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

Generation::Generation(RequestId id, Request request, std::span<const int32_t> message_starts,
                       const Options& options, const text::Tokenizer& tokenizer, Drafters& drafters)
    : id_(id),
      request_(std::move(request)),
      context_(options.context),
      vocabulary_(options.vocabulary),
      tokenizer_(tokenizer),
      history_(request_.prompt),
      sampler_(request_.sampling),
      stops_(std::move(request_.stop), request_.reasoning, request_.reasoning_tags) {
  if (request_.constraint) {
    constraint_.emplace(request_.constraint->matcher(), tokenizer, vocabulary_);
  }
  OutputConstraint* const constraint =
      constraint_ && !request_.keep_state ? &*constraint_ : nullptr;
  drafts_ = drafters.start(request_.keep_state ? Speculation::off() : request_.speculation,
                           request_.sampling, constraint);
  if (request_.continuation) use_continuation();
  given_ = static_cast<int64_t>(history_.size());
  if (request_.thinking) {
    thinking_.emplace(*std::move(request_.thinking), request_.prompt, max_tokens(), tokenizer);
    in_reasoning_ = thinking_->inside();
    if (in_reasoning_) stops_.begin_reasoning();
  }
  // For a small vocabulary, most top logits would be nearly the whole row.
  const int32_t most =
      options.partial_logits ? std::min(kernels::kMaxTopLogits, tokenizer.n_tokens() / 4) : 0;
  if (request_.prompt_logprobs) {
    scorer_.emplace(request_.sampling, request_.prompt, vocabulary_, most);
  }
  if (options.partial_logits) {
    needed_ = sampler_.needed(most, constraint_.has_value());
    needed_.sums |= thinking_.has_value();  // for its certainty
  }
  reserve_tokens();
  outcome_.prompt_tokens = static_cast<int32_t>(prompt_size());
  int64_t end = 0;
  for (const int32_t size : model::chunk_sizes(request_.prompt, message_starts)) {
    end += size;
    chunk_ends_.push_back(end);
  }
  use_prefix();
  if (request_.keep_prefix) {
    keep_at_ = stable_end(chunk_ends_);
    if (keep_at_ == position_ && request_.prefix) outcome_.prefix = request_.prefix;
  }
  if (options.cached) points_ = prefix_points(request_.prompt, chunk_ends_, message_starts);
}

/// So that a step of a generation of ordinary length allocates no memory.
void Generation::reserve_tokens() {
  constexpr int32_t kMostReserved = 1024;
  constexpr size_t kBytesPerToken = 8;
  const auto tokens = static_cast<size_t>(std::min(max_tokens(), kMostReserved));
  history_.reserve(history_.size() + tokens + static_cast<size_t>(kernels::kMaxChunkRows));
  outcome_.tokens.reserve(tokens);
  if (constraint_) constraint_->reserve(tokens + static_cast<size_t>(kernels::kMaxChunkRows));
  outcome_.text.reserve(kBytesPerToken * tokens);
}

void Generation::use_prefix() {
  if (!request_.prefix || request_.continuation) return;
  const std::vector<int32_t>& tokens = request_.prefix->tokens;
  const auto size = static_cast<int64_t>(tokens.size());
  const bool usable = size > 0 && size < prompt_size() &&
                      std::equal(tokens.begin(), tokens.end(), request_.prompt.begin()) &&
                      std::binary_search(chunk_ends_.begin(), chunk_ends_.end(), size);
  if (usable) {
    resume_from(request_.prefix->state, CacheTier::kRequest, request_.prefix->context_rows);
  } else {
    request_.prefix.reset();
  }
}

void Generation::use_continuation() {
  const std::vector<int32_t>& generated = request_.continuation->generated;
  history_.insert(history_.end(), generated.begin(), generated.end());
  position_ = prompt_size();
  decoded_ = static_cast<int64_t>(generated.size()) - 1;
  suspended_ = std::move(request_.continuation->state);
  // The newest characters may be incomplete.
  std::string text;
  for (const int32_t token : generated) {
    text += decoder_.push(text_bytes(token));
    if (constraint_) (void)constraint_->accept(token);  // the earlier request had the same one
  }
  stops_.skip(text);
}

std::string Generation::text_bytes(int32_t token) const {
  return tokenizer_.token_bytes(token, request_.shows(token));
}

void Generation::resume_from(state::Checkpoint state, CacheTier tier,
                             std::shared_ptr<const state::Checkpoint> context_rows) {
  position_ = state.position();
  outcome_.reused_tokens = static_cast<int32_t>(position_);
  outcome_.reused_from = tier;
  from_ = std::move(state);
  from_rows_ = std::move(context_rows);
}

void Generation::drop_prefix() {
  position_ = 0;
  outcome_.reused_tokens = 0;
  outcome_.reused_from = CacheTier::kNone;
  from_.reset();
  from_rows_.reset();
}

bool Generation::at_point() const { return std::ranges::binary_search(points_, position_); }

Status Generation::start(state::StateStore& store) {
  if (!suspended_.empty()) {
    CHIMERE_TRY(auto state, store.from_blob(suspended_));
    if (state->position() != tokens_seen()) {
      return invalid_data("The saved state is that of other tokens; generate from the prompt.");
    }
    state_ = std::move(state);
    suspended_.clear();
    if (started_ == Clock::time_point()) started_ = Clock::now();
    return {};
  }
  started_ = Clock::now();
  state_ = from_ ? from_->restore() : store.create_sequence();
  if (from_rows_ && drafts_) drafts_->resume(*from_rows_, position_);
  from_.reset();
  from_rows_.reset();
  request_.prefix.reset();
  return {};
}

void Generation::suspend() {
  suspended_ = state_->checkpoint().to_blob();
  state_.reset();
}

int32_t Generation::next_chunk(int64_t taken) const {
  const int64_t from = position_ + taken;
  const bool kept = from == keep_at_ || std::ranges::binary_search(points_, from);
  // Of rows with logits one chunk is enough.
  if (from == prompt_size() || (taken > 0 && (kept || scorer_))) return 0;
  return static_cast<int32_t>(*std::ranges::upper_bound(chunk_ends_, from) - from);
}

void Generation::prompt_rows(int64_t rows, model::SequenceRows& out) {
  out.state = state_.get();
  out.row_class = model::RowClass::kPrefill;
  const auto first = request_.prompt.begin() + position_;
  out.tokens.assign(first, first + rows);
  out.chunks.clear();
  for (int64_t from = position_; from < position_ + rows;) {
    const int64_t end = *std::ranges::upper_bound(chunk_ends_, from);
    out.chunks.push_back(static_cast<int32_t>(end - from));
    from = end;
  }
  out.revocable = false;
  out.adapters = request_.adapters.uses;
  out.logits_of.clear();
  if (position_ + rows == prompt_size()) out.logits_of.push_back(static_cast<int32_t>(rows - 1));
  if (!scorer_) return want_partial_logits(out);
  request_whole_rows(out);
  out.selected.clear();
  scorer_->plan(position_, out);
  from_partial_logits_ = scorer_->partial();
}

void Generation::decode_rows(model::SequenceRows& out) {
  out.state = state_.get();
  out.row_class = model::RowClass::kDecode;
  out.chunks.clear();
  out.tokens.assign(1, history_.back());
  if (drafts_) {
    const std::span<const int32_t> drafts = drafts_->drafts();
    out.tokens.insert(out.tokens.end(), drafts.begin(), drafts.end());
  }
  out.revocable = out.tokens.size() > 1;
  out.adapters = request_.adapters.uses;
  out.logits_of.resize(out.tokens.size());
  std::iota(out.logits_of.begin(), out.logits_of.end(), 0);
  want_partial_logits(out);
}

bool Generation::may_decode() const {
  const auto tokens = static_cast<int32_t>(outcome_.tokens.size()) + tokens_launched_;
  return prompt_done() && !finished_ && !held_ && tokens < max_tokens();
}

bool Generation::may_launch(bool decodes, bool samples) const {
  if (!decodes && scorer_) return false;
  if (!samples) return true;
  if (!may_end() || needed_.largest == 0 || thinking_ || constraint_ || request_.keep_state)
    return false;
  if (decodes && drafts_ && !drafts_->idle()) return false;
  return sampler_.choice_on_gpu(0).has_value();
}

void Generation::choose_on_device(model::SequenceRows& rows) const {
  rows.choice = sampler_.choice_on_gpu(history_.size() + static_cast<size_t>(tokens_launched_));
  rows.async_token = tokens_launched_ > 0;
}

void Generation::want_partial_logits(model::SequenceRows& rows) {
  request_whole_rows(rows);
  // The largest logits may be those of tokens that must not end the generation yet.
  from_partial_logits_ = needed_.largest > 0 && !rows.logits_of.empty() && may_end();
  if (!from_partial_logits_) return rows.selected.clear();
  // The requested ids depend on the text before each row; a row's draft tokens precede it.
  selected_.resize(rows.logits_of.size());
  size_t most = 0;
  const size_t before = history_.size();
  for (size_t i = 0; i < selected_.size(); ++i) {
    if (i > 0) history_.push_back(rows.tokens[i]);
    from_partial_logits_ &= sampler_.selected_ids(history_, vocabulary_, selected_[i]).ok();
    most = std::max(most, selected_[i].size());
  }
  history_.resize(before);
  from_partial_logits_ &= most <= static_cast<size_t>(kernels::kMaxSelectedLogits);
  if (!from_partial_logits_) return rows.selected.clear();
  rows.top = needed_.largest;
  rows.sums = needed_.sums;
  if (most > 0) {
    rows.selected = selected_;  // reuses memory
  } else {
    rows.selected.clear();
  }
  if (constraint_) want_masks(rows);
}

void Generation::want_masks(model::SequenceRows& rows) {
  masks_.resize(rows.logits_of.size());
  verified_ = masks_.size();
  for (size_t i = 0; i < masks_.size(); ++i) {
    masks_[i].clear();
    // Errors are reported when the token is sampled.
    const bool possible = i == 0 || constraint_->push_draft(rows.tokens[i]);
    if (!possible) break;
    if (i > 0 && !constraint_->quick()) {
      verified_ = i;
      break;
    }
    if (constraint_->unconstrained()) continue;
    if (const auto allowed = constraint_->allowed(); allowed.ok()) {
      masks_[i].assign(allowed->begin(), allowed->end());
    }
  }
  constraint_->drop_drafts();
  rows.masks.assign(masks_.begin(), masks_.end());
}

int32_t Generation::max_drafts() const {
  return max_tokens() - static_cast<int32_t>(outcome_.tokens.size()) - 1;
}

int32_t Generation::max_tokens() const {
  const int64_t available =
      std::min<int64_t>(context_ - given_, std::numeric_limits<int32_t>::max());
  const auto most = static_cast<int32_t>(available);
  return request_.max_tokens >= 0 ? std::min(most, request_.max_tokens) : most;
}

void Generation::advance_prompt(int64_t rows) {
  position_ += rows;
  if (position_ != keep_at_) return;
  const auto first = request_.prompt.begin();
  outcome_.prefix = Prefix{{first, first + position_}, state_->checkpoint()};
}

void Generation::rows_observed() {
  if (!outcome_.prefix || outcome_.prefix->context_rows || position_ != keep_at_) return;
  outcome_.prefix->context_rows = context_rows(position_);
}

bool Generation::may_end() const {
  return static_cast<int32_t>(outcome_.tokens.size()) + tokens_launched_ >= request_.min_tokens;
}

bool Generation::ends_generation(int32_t token) const {
  return tokenizer_.is_end_of_generation(token) ||
         std::ranges::find(request_.stop_tokens, token) != request_.stop_tokens.end();
}

/// All tokens but those that end a generation.
kernels::TokenMask Generation::continuing_tokens() {
  if (continuing_.empty()) {
    continuing_.assign(static_cast<size_t>(vocabulary_ + 31) / 32, ~0U);
    for (int32_t token = 0; token < vocabulary_; ++token) {
      if (ends_generation(token)) continuing_[token / 32] &= ~(1U << (token % 32));
    }
  }
  return continuing_;
}

Result<sampling::Sampled> Generation::sample(LogitRow& row) {
  if (!constraint_) {
    const size_t before = outcome_.tokens.size() + choices_.size();
    if (before < static_cast<size_t>(std::max(0, request_.min_tokens))) {
      row.restrict_to(continuing_tokens());
    }
    return sample_any(row);
  }
  const bool unconstrained = constraint_->unconstrained();
  if (!unconstrained) {
    CHIMERE_TRY(const kernels::TokenMask allowed, constraint_->allowed());
    row.restrict_to(allowed);
  }
  Result<sampling::Sampled> sampled = sample_any(row);
  if (unconstrained && sampled.ok() && tokenizer_.is_end_of_generation(sampled->id)) {
    CHIMERE_TRY(const kernels::TokenMask allowed, constraint_->allowed());
    row.restrict_to(allowed);
    sampled = row.sample(sampler_, history_);
  }
  while (sampled.ok()) {
    CHIMERE_TRY(const bool accepted, constraint_->accept(sampled->id));
    if (accepted) break;
    CHIMERE_TRY(const kernels::TokenMask allowed, constraint_->allowed());
    row.restrict_to(allowed);
    sampled = row.sample(sampler_, history_);
  }
  return sampled;
}

Result<sampling::Sampled> Generation::sample_any(LogitRow& row) {
  return thinking_ ? thinking_->choose(sampler_, row, history_) : row.sample(sampler_, history_);
}

Result<sampling::Sampled> Generation::sample_partial(const model::StepResult& result, int64_t row,
                                                     const ReadLogits& read_logits) {
  largest_.clear();
  const std::span<const kernels::TopLogit> top = result.top.row(row);
  for (const kernels::TopLogit& t : top.first(static_cast<size_t>(needed_.largest))) {
    largest_.push_back({t.value, t.id});
  }
  known_.clear();
  const std::vector<int32_t>& selected = selected_[static_cast<size_t>(row)];
  for (size_t i = 0; i < selected.size(); ++i) {
    known_.push_back({result.selected.row(row)[i], selected[i]});
  }
  const kernels::LogSumExp* const sums = needed_.sums ? result.sums + row : nullptr;
  const sampling::PartialLogits partial = {largest_, known_, sums};
  const auto read = [&read_logits, row](std::span<float> out) { return read_logits(row, out); };
  LogitRow logits(partial, vocabulary_, read, logits_);
  return sample(logits);
}

bool Generation::choose(Result<sampling::Sampled> sampled) {
  const auto drafts = drafts_ ? drafts_->drafts() : std::span<const int32_t>();
  const size_t draft = choices_.size();
  choices_.push_back({std::move(sampled), thinking_ && thinking_->inside()});
  if (!choices_.back().sampled.ok()) return false;
  const int32_t token = choices_.back().sampled->id;
  history_.push_back(token);
  const bool ends = ends_generation(token) || (constraint_ && constraint_->finished());
  if (draft >= drafts.size() || drafts[draft] != token || ends) return false;
  // The row behind a draft is not used in this step if its mask takes much work.
  if (!constraint_) return true;
  return from_partial_logits_ ? draft + 1 < verified_ : constraint_->quick();
}

void Generation::choose(const model::StepResult& result, const ReadLogits& read_logits) {
  choices_.clear();
  if (scorer_) return choose_scored(result, read_logits);
  tokens_launched_ -= result.chosen != nullptr ? 1 : 0;
  const auto cols = static_cast<size_t>(result.logits.cols);
  const int64_t rows = from_partial_logits_ ? result.top.rows : result.logits.rows;
  for (int64_t row = 0; row < rows; ++row) {
    LogitRow whole(from_partial_logits_ ? std::span<const float>()
                                        : std::span(result.logits.row(row), cols));
    Result<sampling::Sampled> sampled =
        from_partial_logits_ ? sample_partial(result, row, read_logits) : sample(whole);
    // The next step may already have been launched with this token.
    if (result.chosen != nullptr && sampled.ok() && sampled->id != result.chosen[row]) {
      sampled = io_error("The GPU sampled token " + std::to_string(result.chosen[row]) +
                         " but the host samples " + std::to_string(sampled->id) +
                         "; the GPU's result is wrong. Restart the program.");
    }
    if (!choose(std::move(sampled))) return;
  }
}

void Generation::choose_scored(const model::StepResult& result, const ReadLogits& read_logits) {
  const int64_t rows = scorer_->planned();
  if (Status scored = scorer_->score(result); !scored.ok()) {
    choices_.push_back({std::move(scored).error()});
  } else if (prompt_done() && max_tokens() > 0) {
    (void)choose(sample_whole(result, rows - 1, read_logits));
  }
}

Result<sampling::Sampled> Generation::sample_whole(const model::StepResult& result, int64_t row,
                                                   const ReadLogits& read_logits) {
  if (from_partial_logits_) {
    logits_.resize(static_cast<size_t>(vocabulary_));
    CHIMERE_CHECK_OK(read_logits(row, logits_));
  }
  LogitRow whole(from_partial_logits_
                     ? std::span<const float>(logits_)
                     : std::span(result.logits.row(row), static_cast<size_t>(result.logits.cols)));
  return sample(whole);
}

Generation::KeptRows Generation::kept_rows(int64_t prompt_rows) const {
  size_t first = 0;
  auto n = static_cast<size_t>(prompt_rows);
  if (prompt_rows > 0) {
    first = static_cast<size_t>(position_) - n;
  } else {
    if (choices_.empty() || !choices_.back().sampled.ok()) return {};
    n = choices_.size();
    first = history_.size() - n - 1;
  }
  return {std::span(history_).subspan(first, n), static_cast<int32_t>(first)};
}

int32_t Generation::accept() {
  if (scorer_ && (choices_.empty() || choices_.back().sampled.ok())) {
    if (!prompt_done()) return 0;
    if (request_.on_prompt_logprobs) request_.on_prompt_logprobs(scorer_->take());
    scorer_.reset();
    if (choices_.empty()) {
      finish(FinishReason::kLength);
      return 0;
    }
  }
  const int32_t accepted_drafts = drafts_ ? commit_drafts() : 0;
  int32_t added = 0;
  for (Choice& choice : choices_) {
    accept(std::move(choice), added < accepted_drafts);
    ++added;
    if (finished_) break;
  }
  if (!finished_ && constraint_ && constraint_->finished()) finish(FinishReason::kStop);
  return added;
}

int32_t Generation::commit_drafts() {
  const std::span<const int32_t> drafts = drafts_->drafts();
  const auto is_draft = [&](size_t i) {
    return i < drafts.size() && choices_[i].sampled.ok() && choices_[i].sampled->id == drafts[i];
  };
  size_t accepted = 0;
  while (accepted < choices_.size() && is_draft(accepted)) ++accepted;
  // All sampled tokens but the last equal their drafts; if the last one does too, it ends the
  // generation.
  drafts_->end(static_cast<int32_t>(accepted), accepted == choices_.size());
  if (state_->pending_rows() == 0) return static_cast<int32_t>(accepted);
  const auto rows = static_cast<int32_t>(choices_.size());
  (void)state_->commit(rows);  // cannot fail: at most as many as are pending
  decoded_ += rows - 1;
  return static_cast<int32_t>(accepted);
}

void Generation::accept(Choice choice, bool from_draft) {
  Result<sampling::Sampled>& sampled = choice.sampled;
  if (!sampled.ok()) return finish(FinishReason::kError, std::move(sampled).error());
  if (outcome_.tokens.empty()) first_token_ = Clock::now();
  const int32_t token = sampled->id;
  outcome_.tokens.push_back(*std::move(sampled));

  // End-of-generation tokens do not end reasoning; Thinking controls its end.
  const bool ends = !choice.in_reasoning && ends_generation(token);
  const size_t shown = outcome_.text.size();
  const std::string text = ends ? std::string() : decoder_.push(text_bytes(token));
  if (choice.in_reasoning) stops_.begin_reasoning();
  stops_.push(text, outcome_.text);
  // `token` ends the reasoning.
  if (in_reasoning_ && !choice.in_reasoning) stops_.end_reasoning(outcome_.text);
  in_reasoning_ = choice.in_reasoning;
  if (request_.on_token) {
    request_.on_token(
        {outcome_.tokens.back(), std::string_view(outcome_.text).substr(shown), from_draft});
  }

  if (ends || stops_.matched()) return finish(FinishReason::kStop);
  const auto generated = static_cast<int64_t>(outcome_.tokens.size());
  if (request_.max_tokens >= 0 && generated >= request_.max_tokens) {
    return finish(FinishReason::kLength);
  }
  if (given_ + generated >= context_) finish(FinishReason::kContextFull);
}

std::vector<uint8_t> Generation::kept_state() {
  const bool exact = tokens_seen() + 1 == static_cast<int64_t>(history_.size());
  if (!prompt_done() || !exact || reason_ == FinishReason::kError) return {};
  return state_ != nullptr ? state_->checkpoint().to_blob() : std::move(suspended_);
}

void Generation::finish(FinishReason reason, Error error) {
  finished_ = true;
  reason_ = reason;
  outcome_.reason = reason;
  outcome_.error = std::move(error);
  stops_.push(decoder_.finish(), outcome_.text_tail);
  outcome_.text_tail += stops_.finish();
  outcome_.text += outcome_.text_tail;
  outcome_.stop = stops_.match();
  if (!outcome_.tokens.empty()) {
    outcome_.prompt_seconds = seconds(first_token_ - started_);
    outcome_.decode_seconds = seconds(Clock::now() - first_token_);
  }
  if (reason == FinishReason::kError) outcome_.prefix.reset();  // may be of a step that failed
  if (drafts_) outcome_.speculation = drafts_->counts();
  if (thinking_) outcome_.thinking = thinking_->counts();
  if (request_.keep_state) outcome_.state = kept_state();
  state_.reset();
  if (request_.on_finish) request_.on_finish(std::move(outcome_));
}

}  // namespace chimere::engine
