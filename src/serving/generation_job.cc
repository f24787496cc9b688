#include "serving/generation_job.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

namespace chimere::serving {
namespace {

/// Upper bounds, in most cases, of the size of a token's event without its text, and of one
/// alternative token in it.
constexpr size_t kEventBytes = 320;
constexpr size_t kAlternativeBytes = 96;

const char* reason_name(engine::FinishReason reason) {
  // The API uses the same reason for both limits.
  return reason == engine::FinishReason::kStop ? "stop" : "length";
}

}  // namespace

int64_t unix_milliseconds() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

int64_t unix_seconds() { return unix_milliseconds() / 1000; }

std::string make_id(const std::string& prefix) {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

HttpResponse error_response(const protocol::ApiError& error, Headers headers,
                            protocol::ApiForm form) {
  if (error.retry_after > 0) headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.status() == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  return {error.status(), protocol::error_body(error, form), "application/json",
          std::move(headers)};
}

GenerationJob::GenerationJob(const ServedModel& model, std::shared_ptr<ResponseStream> stream,
                             GenerationSpec spec, std::function<void(const GenerationReport&)> done)
    : model_(model), stream_(std::move(stream)), spec_(std::move(spec)), done_(std::move(done)) {
  report_.id = spec_.writer->id();
  for (size_t i = 0; i < spec_.choices.size(); ++i) {
    const GenerationSpec::Choice& wanted = spec_.choices[i];
    const auto index = static_cast<int64_t>(i);
    Choice& choice = choices_.emplace_back(wanted);
    if (spec_.tools) {
      choice.calls.emplace(spec_.tools->format, spec_.tools->definitions);
      (void)choice.calls->push(spec_.tools->opened);  // a header alone
    }
    choice.whole.index = index;
    choice.whole.has_logprobs = wanted.request.sampling.logprobs >= 0;
    choice.scores_prompt = wanted.request.prompt_logprobs && choice.whole.has_logprobs;
    if (choice.scores_prompt) continue;  // see add_prompt()
    choice.whole.content = wanted.echo;
    choice.characters = protocol::count_characters(wanted.echo);
  }
}

void GenerationJob::start() {
  const auto self = shared_from_this();
  if (spec_.stream) {
    stream_->on_take([weak = weak_from_this()](ResponseStream::Piece& out) {
      const auto job = weak.lock();
      if (job) job->drain(out);
      return job != nullptr;
    });
  }
  {
    // The engine may call back before the last choice is submitted; its thread then waits here.
    const std::scoped_lock lock(mutex_);
    unfinished_ = choices_.size();
    for (size_t i = 0; i < choices_.size(); ++i) {
      engine::Request request = spec_.choices[i].request;
      if (choices_[i].scores_prompt) {
        request.on_prompt_logprobs = [self, i](std::vector<sampling::Sampled> scored) {
          self->on_prompt_logprobs(i, std::move(scored));
        };
      }
      request.on_token = [self, i](const engine::TokenEvent& event) { self->on_token(i, event); };
      request.on_finish = [self, i](const engine::Outcome& o) { self->on_finish(i, o); };
      const auto id = model_.service.submit(std::move(request));
      if (!id.ok()) {
        unfinished_ = i;
        fail(protocol::from_submit(id.error()));
        if (i == 0) finish_all();
        return;
      }
      choices_[i].id = *id;
    }
    if (spec_.stream) {
      stream_->start_events(spec_.headers, std::string(spec_.writer->stream_type()));
      std::vector<protocol::Choice> echoed;
      int64_t prompt_tokens = 0;
      for (size_t i = 0; i < choices_.size(); ++i) {
        echoed.push_back(choices_[i].whole);
        const GenerationSpec::Choice& wanted = spec_.choices[i];
        if (wanted.new_prompt) {
          prompt_tokens += static_cast<int64_t>(wanted.request.prompt.size());
        }
      }
      stream_->event(spec_.writer->open(echoed, prompt_tokens));
    }
  }
  stream_->on_stopped([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->cancel_all();
  });
}

void GenerationJob::cancel_all() {
  for (const Choice& choice : choices_) {
    if (choice.id >= 0) model_.service.cancel(choice.id);
  }
}

protocol::TokenLogprobs GenerationJob::logprobs_of(const sampling::Sampled& token,
                                                   bool from_draft) const {
  protocol::TokenLogprobs out;
  out.from_draft = from_draft;
  out.token = {model_.tokenizer.token_bytes(token.id, true), token.logprob};
  for (const sampling::Candidate& c : token.top) {
    out.top.push_back({model_.tokenizer.token_bytes(c.id, true), c.value});
  }
  return out;
}

void GenerationJob::add_logprobs(size_t index, const engine::TokenEvent& event) {
  Choice& choice = choices_[index];
  const sampling::Sampled& token = event.token;
  const bool ends = model_.tokenizer.is_end_of_generation(token.id);
  if (!choice.whole.has_logprobs || (ends && !choice.scores_prompt)) return;
  choice.pending.emplace_back(choice.sampled_bytes, logprobs_of(token, event.from_draft));
  if (ends) return;
  const bool shown = spec_.choices[index].request.shows(token.id);
  choice.sampled_bytes += model_.tokenizer.token_bytes(token.id, shown).size();
}

void GenerationJob::add_prompt(size_t index, std::span<const sampling::Sampled> scored) {
  const GenerationSpec::Choice& wanted = spec_.choices[index];
  protocol::Choice part;
  part.content = wanted.echo;
  const int32_t first = wanted.request.prompt.front();
  part.logprobs.emplace_back();
  part.logprobs.back().token.bytes = model_.tokenizer.token_bytes(first, true);
  part.logprobs.back().first = true;
  for (const sampling::Sampled& token : scored) part.logprobs.push_back(logprobs_of(token, false));
  int64_t surplus = -protocol::count_characters(wanted.echo);
  for (const auto& t : part.logprobs) surplus += protocol::count_characters(t.token.bytes);
  Choice& choice = choices_[index];
  choice.whole.text_offset = -std::max<int64_t>(0, surplus);
  emit(choice, std::move(part), 0, "");
}

protocol::Choice GenerationJob::part_of(Choice& choice, text::ReasoningSplitter::Piece piece,
                                        std::optional<text::ToolCallParser::End> end) const {
  using Kind = text::ToolEvent::Kind;
  protocol::Choice part;
  part.reasoning = std::move(piece.reasoning);
  if (!choice.calls) {
    part.content = std::move(piece.content);
    return part;
  }
  std::vector<text::ToolEvent> events = choice.calls->push(piece.content);
  if (end) {
    for (text::ToolEvent& e : choice.calls->finish(*end)) events.push_back(std::move(e));
  }
  for (text::ToolEvent& e : events) {
    switch (e.kind) {
      case Kind::kContent:
        part.content += e.text;
        break;
      case Kind::kReasoning:
        part.reasoning += e.text;
        break;
      case Kind::kBegin:
        part.tool_calls.push_back(
            {e.call,
             e.id.empty() ? make_id(std::string(spec_.writer->call_prefix())) : std::move(e.id),
             std::move(e.text), ""});
        break;
      case Kind::kArguments:
        if (part.tool_calls.empty()) part.tool_calls.push_back({e.call, "", "", ""});
        part.tool_calls.back().arguments += e.text;
        break;
      case Kind::kEnd:
        break;
    }
  }
  return part;
}

void GenerationJob::emit(Choice& choice, protocol::Choice part, size_t raw_bytes,
                         std::string finish_reason) {
  part.index = choice.whole.index;
  part.finish_reason = std::move(finish_reason);
  part.has_logprobs = choice.whole.has_logprobs;
  choice.emitted_bytes += raw_bytes;
  auto certain = choice.pending.begin();
  // Evaluation harnesses count the tokens: the one that ends the generation is one of them.
  const bool all = choice.scores_prompt && !part.finish_reason.empty() && part.stop_text.empty();
  while (certain != choice.pending.end() && (all || certain->first < choice.emitted_bytes)) {
    part.logprobs.push_back(std::move((certain++)->second));
  }
  choice.pending.erase(choice.pending.begin(), certain);

  protocol::Choice& whole = choice.whole;
  part.text_offset = whole.content.empty() ? whole.text_offset : choice.characters;
  if (whole.has_logprobs) choice.characters += protocol::count_characters(part.content);
  whole.content += part.content;
  whole.reasoning += part.reasoning;
  for (const protocol::ToolCallPiece& call : part.tool_calls) {
    if (!call.name.empty()) {
      whole.tool_calls.push_back(call);
    } else {
      whole.tool_calls.back().arguments += call.arguments;
    }
  }
  whole.finish_reason = part.finish_reason;
  whole.stop_text = part.stop_text;
  whole.context_full = part.context_full;
  const bool empty = part.content.empty() && part.reasoning.empty() && part.tool_calls.empty() &&
                     part.logprobs.empty() && part.finish_reason.empty();
  if (spec_.stream && !empty && !failed_) {
    // An empty list beside a finish reason carries no information.
    if (part.logprobs.empty()) part.has_logprobs = false;
    send(spec_.writer->piece(part));
  }
  for (auto& logprobs : part.logprobs) {
    if (!spec_.stream) whole.logprobs.push_back(std::move(logprobs));
  }
}

void GenerationJob::on_token(size_t index, const engine::TokenEvent& event) {
  if (first_token_seconds_ == 0) {
    first_token_seconds_ = std::chrono::duration<double>(Clock::now() - started_).count();
  }
  if (!spec_.stream) {
    const std::scoped_lock lock(mutex_);
    return add_token(index, event);
  }
  if (pending_bytes_ > ResponseStream::kMaxWaiting) return;  // the client is being disconnected
  const size_t bytes = kEventBytes + event.text.size() + kAlternativeBytes * event.token.top.size();
  const bool too_much = (pending_bytes_ += bytes) > ResponseStream::kMaxWaiting;
  const bool first =
      pending_tokens_.push({index, event.token, std::string(event.text), event.from_draft, bytes});
  if (too_much) {
    stream_->drop_slow_client();
  } else if (first) {
    stream_->announce();
  }
}

void GenerationJob::on_prompt_logprobs(size_t index, std::vector<sampling::Sampled> scored) {
  if (!spec_.stream) {
    const std::scoped_lock lock(mutex_);
    return add_prompt(index, scored);
  }
  PendingToken prompt;
  prompt.index = index;
  prompt.prompt = true;
  prompt.scored = std::move(scored);
  if (pending_tokens_.push(std::move(prompt))) stream_->announce();
}

void GenerationJob::drain(ResponseStream::Piece& out) {
  const std::scoped_lock lock(mutex_);
  // Under the lock, so that no event overtakes those sent before.
  stream_->collect(out);
  piece_ = &out.bytes;
  write_pending();
  piece_ = nullptr;
}

void GenerationJob::send(std::string_view events) {
  if (piece_ != nullptr) {
    *piece_ += events;
  } else {
    stream_->event(events);
  }
}

/// Requires `mutex_`.
void GenerationJob::write_pending() {
  pending_tokens_.take(writing_);
  for (const PendingToken& t : writing_) {
    pending_bytes_ -= t.bytes;
    if (t.prompt) {
      add_prompt(t.index, t.scored);
    } else {
      add_token(t.index, {t.token, t.text, t.from_draft});
    }
  }
  writing_.clear();
}

void GenerationJob::add_token(size_t index, const engine::TokenEvent& event) {
  Choice& choice = choices_[index];
  ++report_.usage.completion_tokens;
  add_logprobs(index, event);
  const bool thinking = choice.splitter.thinking();
  text::ReasoningSplitter::Piece piece = choice.splitter.push(event.text);
  // The tag that ends the reasoning is not counted.
  report_.usage.reasoning_tokens += thinking && choice.splitter.thinking() ? 1 : 0;
  emit(choice, part_of(choice, std::move(piece), std::nullopt), event.text.size(), "");
}

void GenerationJob::on_finish(size_t index, const engine::Outcome& outcome) {
  const std::scoped_lock lock(mutex_);
  write_pending();
  Choice& choice = choices_[index];
  if (spec_.choices[index].new_prompt) {
    report_.usage.prompt_tokens += outcome.prompt_tokens;
    report_.usage.cached_tokens += outcome.reused_tokens;
  }
  report_.usage.accepted_drafts += outcome.speculation.accepted();
  timings_.prompt = std::max(timings_.prompt, outcome.prompt_seconds);
  timings_.decode = std::max(timings_.decode, outcome.decode_seconds);
  report_.usage.rejected_drafts += outcome.speculation.drafted() - outcome.speculation.accepted();
  if (outcome.reason == engine::FinishReason::kCancelled) {
    // If the client has disconnected, the error appears only in the log.
    const protocol::ErrorCode client_gone("cancelled", 499);
    fail({stream_->abandoned() ? client_gone : "cancelled", "The request was cancelled.", "", 5});
  } else if (outcome.reason == engine::FinishReason::kError) {
    fail(protocol::from_engine(outcome.error));
  } else {
    text::ReasoningSplitter::Piece piece = choice.splitter.push(outcome.text_tail);
    const text::ReasoningSplitter::Piece last = choice.splitter.finish();
    piece.content += last.content;
    piece.reasoning += last.reasoning;
    const bool stopped = outcome.reason == engine::FinishReason::kStop;
    using End = text::ToolCallParser::End;
    protocol::Choice part = part_of(choice, std::move(piece), stopped ? End::kWhole : End::kCutOff);
    const bool called = stopped && choice.calls && choice.calls->calls() > 0;
    part.stop_text = outcome.stop;
    part.context_full = outcome.reason == engine::FinishReason::kContextFull;
    emit(choice, std::move(part), outcome.text_tail.size(),
         called ? "tool_calls" : reason_name(outcome.reason));
    report_.outcome = choice.whole.finish_reason;
    if (spec_.on_choice) spec_.on_choice(choice.whole);
  }
  if (--unfinished_ == 0) finish_all();
}

void GenerationJob::fail(const protocol::ApiError& error) {
  if (failed_) return;
  failed_ = true;
  report_.status = error.status();
  report_.outcome = error.code.name();
  if (spec_.on_error) {
    spec_.on_error(error);
  } else if (stream_->streaming()) {
    stream_->event(spec_.writer->fail(error));
  } else {
    stream_->respond(error_response(error, spec_.headers, spec_.form));
  }
  cancel_all();
}

void GenerationJob::finish_all() {
  report_.first_token_seconds = first_token_seconds_;
  report_.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  timings_.total = report_.seconds;
  std::vector<protocol::Choice> whole;
  whole.reserve(choices_.size());
  for (Choice& choice : choices_) whole.push_back(std::move(choice.whole));
  if (!failed_ && spec_.on_end) spec_.on_end(whole, report_.usage, timings_);
  // Before the end is sent, so that a client at its key's limit can send the next request then.
  done_(report_);
  if (stream_->streaming()) {
    if (!failed_) stream_->event(spec_.writer->close(report_.usage, timings_));
    stream_->end_events();
  } else if (!failed_) {
    stream_->respond({200, spec_.writer->whole(whole, report_.usage, timings_), "application/json",
                      spec_.headers});
  }
}

}  // namespace chimere::serving
