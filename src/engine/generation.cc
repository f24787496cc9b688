#include "engine/generation.h"

#include <algorithm>
#include <utility>

#include "engine/prefix_points.h"
#include "model/chunking.h"

namespace chimere::engine {
namespace {

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
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
                       int64_t context, const text::Tokenizer& tokenizer, bool cached)
    : id_(id),
      request_(std::move(request)),
      context_(context),
      tokenizer_(tokenizer),
      history_(request_.prompt),
      sampler_(request_.sampling),
      stops_(std::move(request_.stop)) {
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
  if (cached) points_ = prefix_points(request_.prompt, chunk_ends_, message_starts);
}

void Generation::use_prefix() {
  if (!request_.prefix) return;
  const std::vector<int32_t>& tokens = request_.prefix->tokens;
  const auto size = static_cast<int64_t>(tokens.size());
  const bool usable = size > 0 && size < prompt_size() &&
                      std::equal(tokens.begin(), tokens.end(), request_.prompt.begin()) &&
                      std::binary_search(chunk_ends_.begin(), chunk_ends_.end(), size);
  if (usable) {
    go_on_from(request_.prefix->state, CacheTier::kRequest);
  } else {
    request_.prefix.reset();
  }
}

void Generation::go_on_from(state::Checkpoint state, CacheTier tier) {
  position_ = state.position();
  outcome_.reused_tokens = static_cast<int32_t>(position_);
  outcome_.reused_from = tier;
  from_ = std::move(state);
}

void Generation::go_on_from_nothing() {
  position_ = 0;
  outcome_.reused_tokens = 0;
  outcome_.reused_from = CacheTier::kNone;
  from_.reset();
}

bool Generation::at_point() const { return std::ranges::binary_search(points_, position_); }

Status Generation::start(state::StateStore& store) {
  if (!suspended_.empty()) {
    CHIMERE_TRY(state_, store.from_blob(suspended_));
    suspended_.clear();
    return {};
  }
  started_ = Clock::now();
  state_ = from_ ? from_->restore() : store.create_sequence();
  from_.reset();
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
  if (from == prompt_size() || (taken > 0 && kept)) return 0;
  return static_cast<int32_t>(*std::ranges::upper_bound(chunk_ends_, from) - from);
}

model::SequenceRows Generation::prompt_rows(int64_t rows) {
  model::SequenceRows out;
  out.state = state_.get();
  out.row_class = model::RowClass::kChunk;
  const auto first = request_.prompt.begin() + position_;
  out.tokens.assign(first, first + rows);
  for (int64_t from = position_; from < position_ + rows;) {
    const int64_t end = *std::ranges::upper_bound(chunk_ends_, from);
    out.chunks.push_back(static_cast<int32_t>(end - from));
    from = end;
  }
  if (position_ + rows == prompt_size()) out.logits_of = {static_cast<int32_t>(rows - 1)};
  return out;
}

model::SequenceRows Generation::decode_row() {
  model::SequenceRows out;
  out.state = state_.get();
  out.row_class = model::RowClass::kStep;
  out.tokens = {history_.back()};
  out.logits_of = {0};
  return out;
}

void Generation::advance_prompt(int64_t rows) {
  position_ += rows;
  if (position_ != keep_at_) return;
  const auto first = request_.prompt.begin();
  outcome_.prefix = Prefix{{first, first + position_}, state_->checkpoint()};
}

bool Generation::ends_reply(int32_t token) const {
  return tokenizer_.is_end_of_generation(token) ||
         std::ranges::find(request_.stop_tokens, token) != request_.stop_tokens.end();
}

void Generation::choose(std::span<const float> logits) {
  choice_ = sampler_.sample(logits, history_, history_.size());
}

void Generation::accept() {
  auto sampled = *std::exchange(choice_, std::nullopt);
  if (!sampled.ok()) return finish(FinishReason::kError, std::move(sampled).error());
  if (outcome_.tokens.empty()) first_token_ = Clock::now();
  const int32_t token = sampled->id;
  history_.push_back(token);
  outcome_.tokens.push_back(*std::move(sampled));

  const bool ends = ends_reply(token);
  std::string text;
  if (!ends) text = stops_.push(decoder_.push(tokenizer_.token_bytes(token, false)));
  outcome_.text += text;
  if (request_.on_token) request_.on_token({outcome_.tokens.back(), text});

  if (ends || stops_.matched()) return finish(FinishReason::kStop);
  const auto replied = static_cast<int64_t>(outcome_.tokens.size());
  if (request_.max_tokens >= 0 && replied >= request_.max_tokens) {
    return finish(FinishReason::kLength);
  }
  if (prompt_size() + replied >= context_) finish(FinishReason::kContextFull);
}

void Generation::finish(FinishReason reason, Error error) {
  finished_ = true;
  reason_ = reason;
  outcome_.reason = reason;
  outcome_.error = std::move(error);
  outcome_.text_tail = stops_.push(decoder_.finish()) + stops_.finish();
  outcome_.text += outcome_.text_tail;
  if (!outcome_.tokens.empty()) {
    outcome_.prompt_seconds = seconds(first_token_ - started_);
    outcome_.decode_seconds = seconds(Clock::now() - first_token_);
  }
  state_.reset();
  if (request_.on_finish) request_.on_finish(std::move(outcome_));
}

}  // namespace chimere::engine
