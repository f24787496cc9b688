#include "engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/speculation/draft_round.h"
#include "kernels/api.h"

namespace chimere::engine {

Engine::Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      crowd_limit_(static_cast<size_t>(options.max_running)) {
  const int32_t start = tokenizer.find("<|im_start|>");
  if (start >= 0) message_starts_.push_back(start);
}

Result<std::unique_ptr<Engine>> Engine::create(model::Model& model,
                                               const text::Tokenizer& tokenizer,
                                               const EngineOptions& options) {
  if (tokenizer.n_tokens() > model.n_vocab()) {
    return invalid_data("The model file has " + std::to_string(tokenizer.n_tokens()) +
                        " tokens but " + std::to_string(model.n_vocab()) +
                        " rows of output; it is damaged.");
  }
  // Replies must leave room for a whole chunk, or a prompt could wait for ever.
  if (options.max_running < 1 ||
      options.max_step_rows < options.max_running + kernels::kMaxChunkRows) {
    return invalid_argument("A step of " + std::to_string(options.max_step_rows) +
                            " rows is too small for " + std::to_string(options.max_running) +
                            " requests and a prompt chunk of " +
                            std::to_string(kernels::kMaxChunkRows) + " rows.");
  }
  EngineOptions adjusted = options;
  const state::StateStore& states = model.states();
  if (states.bytes_per_token() > 0) {
    const int64_t capacity = states.max_pages() * states.spec().page_tokens;
    adjusted.context = options.context > 0 ? std::min(options.context, capacity) : capacity;
  } else if (adjusted.context <= 0) {
    adjusted.context = model.context_length();
  }
  return std::unique_ptr<Engine>(new Engine(model, tokenizer, adjusted));
}

Result<RequestId> Engine::submit(Request request) {
  CHIMERE_CHECK_OK(check(request));
  const RequestId id = next_id_;
  add(id, std::move(request));
  return id;
}

Status Engine::check(const Request& request) const {
  CHIMERE_CHECK_OK(sampling::validate(request.sampling));
  for (const sampling::LogitBias& bias : request.sampling.logit_bias) {
    if (bias.id >= model_.n_vocab()) {
      return invalid_argument("Token " + std::to_string(bias.id) +
                              " of the logit biases does not exist; ids go from 0 to " +
                              std::to_string(model_.n_vocab() - 1) + ".");
    }
  }
  const auto size = static_cast<int64_t>(request.prompt.size());
  if (size == 0) return invalid_argument("The prompt is empty; there is nothing to go on from.");
  if (size >= options_.context) {
    return invalid_argument("The prompt has " + std::to_string(size) +
                            " tokens, but the context holds " + std::to_string(options_.context) +
                            " with the reply; shorten it or raise the context (--ctx).");
  }
  if (request.max_tokens == 0 || request.max_tokens < -1) {
    return invalid_argument(
        "A reply needs at least one token (or -1: no limit), but max-tokens is " +
        std::to_string(request.max_tokens) + ".");
  }
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= model_.n_vocab()) {
      return invalid_argument("Token " + std::to_string(token) +
                              " of the prompt does not exist; ids go from 0 to " +
                              std::to_string(model_.n_vocab() - 1) + ".");
    }
  }
  return {};
}

void Engine::add(RequestId id, Request request) {
  next_id_ = id + 1;
  waiting_.push_back(std::make_unique<Generation>(id, std::move(request), message_starts_,
                                                  options_.context, tokenizer_, lessons_));
}

EngineCounters Engine::counters() const {
  EngineCounters now = counters_;
  now.running = static_cast<int64_t>(running_.size());
  now.waiting = static_cast<int64_t>(waiting_.size());
  now.suspended = std::ranges::count_if(waiting_, [](const auto& g) { return g->suspended(); });
  return now;
}

bool Engine::cancel(RequestId id) {
  const auto has = [&](const List& list) {
    return std::ranges::any_of(list,
                               [&](const auto& g) { return g->id() == id && !g->finished(); });
  };
  if (!has(running_) && !has(waiting_)) return false;
  cancelled_.push_back(id);
  return true;
}

void Engine::cancel_all() {
  for (const List* list : {&running_, &waiting_}) {
    for (const auto& g : *list) cancelled_.push_back(g->id());
  }
}

bool Engine::step() {
  finish_cancelled();
  admit();
  propose_drafts(model_, running_, draft_rows(), lessons_);
  const std::vector<Planned> planned = plan_rows();
  if (planned.empty()) return !waiting_.empty();
  const auto begun = Clock::now();
  model::StepPlan plan = make_plan(planned);
  auto result = model_.forward(plan);
  if (!result.ok() && result.error().code == Error::Code::kOutOfMemory && drop_drafts(planned)) {
    plan = make_plan(planned);
    result = model_.forward(plan);
  }
  if (result.ok()) {
    choose(planned, *result);
    learn(plan, std::chrono::duration<double>(Clock::now() - begun).count());
    for (const Planned& p : planned) {
      if (p.generation->prompt_done()) counters_.reply_tokens += p.generation->accept();
    }
  } else {
    handle_failure(result.error(), planned);
  }
  drop_finished();
  return !idle();
}

void Engine::finish_cancelled() {
  for (const RequestId id : std::exchange(cancelled_, {})) {
    for (List* list : {&running_, &waiting_}) {
      for (size_t i = 0; i < list->size(); ++i) {
        if ((*list)[i]->id() == id) (*list)[i]->finish(FinishReason::kCancelled);
      }
    }
  }
  drop_finished();
}

int64_t Engine::pages_for(int64_t tokens) const {
  const state::StateStore& states = model_.states();
  if (states.bytes_per_token() == 0) return 0;
  const int64_t page = states.spec().page_tokens;
  return (tokens + page - 1) / page;
}

bool Engine::has_room_for(const Generation& candidate) const {
  const state::StateStore& states = model_.states();
  int64_t free = states.max_pages() - states.pages_in_use();
  // What the running requests still need for their prompts, and a page each for their replies.
  for (const auto& g : running_) {
    free -=
        pages_for(g->prompt_size()) - pages_for(std::min(g->tokens_seen(), g->prompt_size())) + 1;
  }
  return pages_for(std::max(candidate.prompt_size(), candidate.tokens_seen())) + 1 <= free;
}

void Engine::admit() {
  const size_t limit = std::min(crowd_limit_, static_cast<size_t>(options_.max_running));
  while (!waiting_.empty() && running_.size() < limit) {
    Generation& next = *waiting_.front();
    // Alone it may use everything; if even that is not enough, its step will say so.
    if (!running_.empty() && !has_room_for(next)) return;
    const Status started = next.start(model_.states());
    if (!started.ok()) {
      if (!running_.empty()) return;
      next.finish(FinishReason::kError, started.error());
      waiting_.erase(waiting_.begin());
      continue;
    }
    running_.push_back(std::move(waiting_.front()));
    waiting_.erase(waiting_.begin());
    std::ranges::sort(running_, {}, [](const auto& g) { return g->id(); });
  }
}

std::vector<Engine::Planned> Engine::plan_rows() {
  std::vector<Planned> planned;
  std::vector<Planned> reading;
  int64_t budget = options_.max_step_rows;
  for (const auto& g : running_) {
    if (g->prompt_done()) {
      planned.push_back({g.get(), 0});
      budget -= g->decode_size();
    } else {
      reading.push_back({g.get(), 0});
    }
  }
  if (reading.empty()) return planned;
  // One chunk each in turn; the first turn moves on from step to step.
  std::ranges::rotate(reading,
                      reading.begin() + static_cast<std::ptrdiff_t>(turn_++ % reading.size()));
  for (bool added = true; added;) {
    added = false;
    for (Planned& p : reading) {
      const int32_t chunk = p.generation->next_chunk(p.rows);
      if (chunk == 0 || chunk > budget) continue;
      p.rows += chunk;
      budget -= chunk;
      added = true;
    }
  }
  std::ranges::copy_if(reading, std::back_inserter(planned),
                       [](const Planned& p) { return p.rows > 0; });
  return planned;
}

void Engine::handle_failure(const Error& error, const std::vector<Planned>& planned) {
  if (error.code == Error::Code::kOutOfMemory && running_.size() > 1) {
    running_.back()->suspend();
    const auto place = std::ranges::find_if(
        waiting_, [&](const auto& g) { return g->id() > running_.back()->id(); });
    waiting_.insert(place, std::move(running_.back()));
    running_.pop_back();
    crowd_limit_ = running_.size();
    ++counters_.evictions;
    return;
  }
  for (const Planned& p : planned) p.generation->finish(FinishReason::kError, error);
}

void Engine::choose(const std::vector<Planned>& planned, const model::StepResult& result) {
  struct Choosing {
    Generation* generation = nullptr;
    ConstMatrixView logits;
  };
  std::vector<Choosing> choosing;
  counters_.last_replies = 0;
  int64_t first = 0;
  for (const Planned& p : planned) {
    int64_t rows = 1;
    if (p.rows > 0) {
      p.generation->advance_prompt(p.rows);
      counters_.prompt_tokens += p.rows;
      if (!p.generation->prompt_done()) continue;
    } else {
      p.generation->advance_decode();
      ++counters_.last_replies;
      rows = p.generation->decode_size();
    }
    choosing.push_back(
        {p.generation, {result.logits.row(first), rows, result.logits.cols, result.logits.stride}});
    first += rows;
  }
  const auto choose = [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t i = begin; i < end; ++i) {
      const Choosing& c = choosing[static_cast<size_t>(i)];
      c.generation->choose(c.logits);
    }
  };
  const auto n = static_cast<int64_t>(choosing.size());
  if (options_.pool != nullptr) {
    options_.pool->parallel_for(n, 1, choose);
  } else {
    choose(0, n, 0);
  }
  ++counters_.steps;
}

model::StepPlan Engine::make_plan(const std::vector<Planned>& planned) {
  model::StepPlan plan;
  for (const Planned& p : planned) {
    plan.sequences.push_back(p.rows > 0 ? p.generation->prompt_rows(p.rows)
                                        : p.generation->decode_rows());
    const Speculator* speculator = p.generation->speculator();
    plan.feed_drafts |= speculator != nullptr && speculator->wants_feeding();
  }
  return plan;
}

int64_t Engine::draft_rows() const {
  int64_t replying = 0;
  bool reading = false;
  for (const auto& g : running_) {
    if (g->prompt_done()) {
      ++replying;
    } else {
      reading = true;
    }
  }
  return options_.max_step_rows - replying - (reading ? kernels::kMaxChunkRows : 0);
}

bool Engine::drop_drafts(const std::vector<Planned>& planned) {
  bool dropped = false;
  for (const Planned& p : planned) {
    Speculator* speculator = p.generation->speculator();
    if (p.rows > 0 || speculator == nullptr || speculator->drafts().empty()) continue;
    speculator->drop();
    dropped = true;
  }
  return dropped;
}

/// Steps of replies alone tell what a row costs.
void Engine::learn(const model::StepPlan& plan, double seconds) {
  size_t rows = 0;
  for (const model::SequenceRows& s : plan.sequences) {
    if (s.row_class == model::RowClass::kChunk) return;
    rows += s.tokens.size();
  }
  lessons_.steps.add(static_cast<int32_t>(rows), seconds);
  lessons_.since_plain = rows > plan.sequences.size() ? lessons_.since_plain + 1 : 0;
}

void Engine::drop_finished() {
  const auto finished = [](const auto& g) { return g->finished(); };
  const size_t dropped = std::erase_if(running_, finished) + std::erase_if(waiting_, finished);
  if (dropped > 0) crowd_limit_ = static_cast<size_t>(options_.max_running);
}

}  // namespace chimere::engine
