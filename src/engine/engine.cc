#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/system.h"
#include "engine/layer_outputs.h"
#include "kernels/api.h"

namespace chimere::engine {
namespace {

/// Steps between two reads of the model's expert counters, which may be in GPU memory.
constexpr int64_t kStepsPerExpertUse = 64;

/// Whether the step's duration is comparable with that of others: it has no prompt rows.
bool only_decodes(const LaunchedStep& step) {
  return std::ranges::all_of(step.planned, [](const PlannedRows& p) { return p.decodes(); });
}

}  // namespace

Engine::Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options)
    : model_(model),
      options_(options),
      drafters_(
          {model, options.draft_model,
           [cache = options.cache] { return cache != nullptr && cache->evict_context_rows(); }},
          options.drafters, options.now),
      generations_(model, tokenizer, drafters_, options.context),
      scheduler_(model.states(), options.cache, options.max_running,
                 [this] { return warmups_.release(); }),
      warmups_(model, options.cache, generations_, drafters_,
               [this](const Generation& g) { return scheduler_.make_room_for(g); }),
      planner_(options.max_step_rows, options.max_itl_ratio),
      sampler_(model, options.pool),
      pipeline_(model, options.now) {
  if (options.wake) masks_.emplace(options.wake);
}

double Engine::seconds_since(std::chrono::steady_clock::time_point then) const {
  return std::chrono::duration<double>(options_.now() - then).count();
}

Result<std::unique_ptr<Engine>> Engine::create(model::Model& model,
                                               const text::Tokenizer& tokenizer,
                                               const EngineOptions& options) {
  if (model.embeds()) {
    return unsupported(
        "This model computes embeddings and generates no text; use `chimere embed`, or pass it to "
        "the server as --embedding-model.");
  }
  if (tokenizer.n_tokens() > model.n_vocab()) {
    return invalid_data("The model file has " + std::to_string(tokenizer.n_tokens()) +
                        " tokens but " + std::to_string(model.n_vocab()) +
                        " rows of output; it is damaged.");
  }
  // Decode rows must leave space for a whole chunk, or a prompt could wait forever.
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
    const int64_t capacity = states.free_pages(Scheduler::kSlotsAlone) * states.spec().page_tokens;
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
  if (size == 0) return invalid_argument("The prompt is empty; give it at least one token.");
  if (size >= options_.context) {
    return invalid_argument("The prompt has " + std::to_string(size) +
                            " tokens, but the context holds " + std::to_string(options_.context) +
                            " including the generation; shorten it or raise the context (--ctx).");
  }
  if ((request.max_tokens == 0 && !request.prompt_logprobs) || request.max_tokens < -1) {
    return invalid_argument(
        "A generation needs at least one token (or -1: no limit), but max-tokens is " +
        std::to_string(request.max_tokens) + ".");
  }
  if (request.min_tokens > 0 && request.constraint != nullptr) {
    return unsupported(
        "A minimum number of tokens cannot be combined with a form of the output; omit one.");
  }
  CHIMERE_CHECK_OK(check_tokens(request.prompt, "prompt"));
  for (const kernels::AdapterUse& use : request.adapters.uses) {
    if (!model_.has_adapter(use.adapter)) {
      return invalid_argument("The model has no adapter of number " + std::to_string(use.adapter) +
                              ".");
    }
  }
  int32_t before = -1;
  for (const int32_t layer : request.taps) {
    if (layer < 0 || layer >= model_.n_layers()) {
      return invalid_argument("Layer " + std::to_string(layer) +
                              " cannot be tapped: the model has " +
                              std::to_string(model_.n_layers()) + " layers, counted from 0.");
    }
    if (layer <= before) {
      return invalid_argument("The tapped layers must rise; " + std::to_string(layer) +
                              " comes after " + std::to_string(before) + ".");
    }
    before = layer;
  }
  if (request.prompt_logprobs &&
      (request.prefix || request.keep_prefix || request.continuation || request.keep_state)) {
    return unsupported(
        "Log-probabilities of the prompt need its rows computed; continue from no saved state, and "
        "keep none.");
  }
  const bool pausable = !request.thinking && request.sampling.mirostat != 2;
  if ((request.keep_state || request.continuation) && !pausable) {
    return unsupported(
        "A generation with a reasoning budget or Mirostat cannot be continued later; leave "
        "--reasoning at auto or none, and --mirostat at 0.");
  }
  if (!request.continuation) return {};
  const Continuation& from = *request.continuation;
  if (from.generated.empty() || from.state.empty()) {
    return invalid_argument("There is no generation to continue.");
  }
  if (size + static_cast<int64_t>(from.generated.size()) >= options_.context) {
    return invalid_argument("The context of " + std::to_string(options_.context) +
                            " tokens is full; raise it (--ctx).");
  }
  return check_tokens(from.generated, "generation");
}

Status Engine::check_tokens(std::span<const int32_t> tokens, const char* where) const {
  const auto outside = [&](int32_t token) { return token < 0 || token >= model_.n_vocab(); };
  const auto found = std::ranges::find_if(tokens, outside);
  if (found == tokens.end()) return {};
  return invalid_argument("Token " + std::to_string(*found) + " of the " + where +
                          " does not exist; ids go from 0 to " +
                          std::to_string(model_.n_vocab() - 1) + ".");
}

void Engine::add(RequestId id, Request request) {
  next_id_ = id + 1;
  // The cache's states are those of prefill rows, without logits.
  if (request.prompt_logprobs) request.use_cache = false;
  const bool cached = options_.cache != nullptr && request.use_cache;
  scheduler_.add(generations_.make(id, std::move(request), cached));
}

EngineCounters Engine::counters() const {
  EngineCounters now = counters_;
  now.running = static_cast<int64_t>(scheduler_.running().size());
  now.waiting = static_cast<int64_t>(scheduler_.waiting().size());
  now.suspended =
      std::ranges::count_if(scheduler_.waiting(), [](const auto& g) { return g->suspended(); });
  now.evictions = scheduler_.evictions();
  now.warmups_waiting = warmups_.size();
  now.warmup_tokens = warmups_.counters().tokens;
  now.warmups_computed = warmups_.counters().computed;
  now.warmups_cached = warmups_.counters().cached;
  now.warmups_dropped = warmups_.counters().dropped;
  now.speculation = drafters_.counts();
  return now;
}

bool Engine::cancel(RequestId id) {
  const Generation* const found = scheduler_.find(id);
  if (found == nullptr || found->finished()) return false;
  cancelled_.push_back(id);
  return true;
}

void Engine::cancel_all() {
  for (const Scheduler::List* list : {&scheduler_.running(), &scheduler_.waiting()}) {
    for (const auto& g : *list) cancelled_.push_back(g->id());
  }
  warmups_.clear();
}

void Engine::warmup(const std::string& owner, std::vector<int32_t> tokens,
                    std::optional<std::string> shared_cache, RequestAdapters adapters,
                    Speculation speculation) {
  if (static_cast<int64_t>(tokens.size()) < options_.context) {
    warmups_.add(owner, std::move(tokens), std::move(shared_cache), std::move(adapters),
                 speculation);
  }
}

void Engine::settle() {
  settling_ = true;
  while (!pipeline_.empty()) finish_oldest_step();
  settling_ = false;
  drop_finished();
}

bool Engine::step() {
  if (!pipeline_.empty()) {
    finish_oldest_step();
  } else if (!begin_step()) {
    if (masks_ && masks_->outstanding() > 0) return masks_->ready();
    if (scheduler_.waiting().empty()) return warmups_.work();
    // All waiting requests wait for reads from disk.
    if (options_.cache != nullptr) options_.cache->wait();
    return true;
  }
  if (!pipeline_.empty()) {
    drop_finished();
    return true;
  }
  if (options_.cache != nullptr && counters_.steps % kStepsPerSave == 0) {
    (void)options_.cache->save_one();
  }
  drop_finished();
  if (idle() || counters_.steps % kStepsPerExpertUse == 0) {
    if (const auto use = model_.expert_use(); use.ok()) counters_.experts = *use;
  }
  return !idle() || options_.cache != nullptr;
}

/// Launches a step, or computes it if it needs the host. False if there are no rows to compute.
bool Engine::begin_step() {
  finish_cancelled();
  if (options_.cache != nullptr) options_.cache->poll();
  scheduler_.admit();
  propose_drafts();
  planner_.plan(scheduler_.running(), step_.planned);
  if (step_.planned.empty()) {
    drafts_ready_ = false;
    return false;
  }
  overlapped_steps_ = 0;
  const bool interleave = model_.can_interleave() && planner_.too_slow(step_.planned);
  if (!interleave && pipeline_.launch(step_.planned)) {
    drafts_ready_ = false;
    return true;
  }
  next_ = step_.planned;
  const Status computed = interleave ? compute_interleaved() : compute(step_);
  if (!computed.ok()) handle_failure(computed.error(), next_);
  return true;
}

/// Whether the next step is determined except for its tokens.
bool Engine::may_overlap() const {
  const bool look_at_drafts = overlapped_steps_ >= SequenceDrafts::kIdleAfter &&
                              std::ranges::any_of(scheduler_.running(), [](const auto& g) {
                                return g->drafts() != nullptr;
                              });
  return !settling_ && pipeline_.size() == 1 && cancelled_.empty() && !look_at_drafts &&
         !(masks_ && masks_->ready()) && !scheduler_.may_admit() &&
         (counters_.steps + 1) % kStepsPerSave != 0;
}

/// Launches the next step, if possible, before waiting for the oldest one.
void Engine::finish_oldest_step() {
  if (may_overlap()) {
    planner_.plan(scheduler_.running(), next_);
    const bool interleave = model_.can_interleave() && planner_.too_slow(next_);
    if (!interleave && pipeline_.launch(next_)) {
      ++overlapped_steps_;
      ++counters_.overlapped_steps;
    }
  }
  LaunchedStep& step = pipeline_.oldest();
  const auto result = pipeline_.wait();
  if (result.ok()) {
    const double seconds = seconds_since(std::max(step.launched, last_step_));
    planner_.record(step.planned, seconds);
    learn(step, seconds);
    sample(step, *result);
    keep(step);
    accept(step.planned);
  } else {
    for (const PlannedRows& p : step.planned) {
      if (p.generation != nullptr) p.generation->finish(FinishReason::kError, result.error());
    }
    // The sequences of the next step are lost, too.
    if (!pipeline_.empty()) {
      for (const PlannedRows& p : pipeline_.oldest().planned) {
        if (!p.generation->finished()) p.generation->finish(FinishReason::kError, result.error());
      }
    }
  }
  // The row of a generation that has ended meanwhile is wasted.
  if (!pipeline_.empty() && !pipeline_.oldest().drop_finished()) pipeline_.discard();
}

/// Records the cost of a decode step; steps with prompt rows are not comparable.
void Engine::learn(const LaunchedStep& step, double seconds) {
  if (!only_decodes(step)) return;
  size_t rows = 0;
  for (const model::SequenceRows& s : step.plan.sequences) rows += s.tokens.size();
  drafters_.record_step(static_cast<int32_t>(rows),
                        static_cast<int32_t>(step.plan.sequences.size()), seconds);
}

/// Samples the tokens of a computed step.
void Engine::sample(LaunchedStep& step, const model::StepResult& result) {
  int64_t decoding = 0;
  for (const PlannedRows& p : step.planned) {
    if (p.generation == nullptr) continue;
    counters_.prompt_tokens += p.prompt_rows;
    decoding += p.decodes();
  }
  sampler_.sample(step.planned, result);
  last_step_ = options_.now();
  ++counters_.steps;
  if (decoding > 0) {
    counters_.batch.add(static_cast<double>(decoding));
    last_decode_ = last_step_;
  }
}

/// Gives drafters and requests the layers' outputs that they have asked for, of rows that stay.
void Engine::observe(const LaunchedStep& step, std::span<const ConstMatrixView> taps) {
  if (step.plan.taps.empty()) return;
  std::vector<StepRows> rows;
  int64_t first_row = 0;
  for (size_t i = 0; i < step.planned.size(); ++i) {
    const PlannedRows& p = step.planned[i];
    if (p.generation != nullptr) {
      const auto [tokens, position] = p.generation->kept_rows(p.prompt_rows);
      rows.push_back({p.generation->drafts(), tokens, position, first_row, !p.decodes()});
      hand_over(rows.back(), step.plan, p.generation->request());
    }
    first_row += static_cast<int64_t>(step.plan.sequences[i].tokens.size());
  }
  drafters_.observe(step.plan, taps, rows);
  for (const PlannedRows& p : step.planned) {
    if (p.generation != nullptr && !p.decodes()) p.generation->rows_observed();
  }
}

/// Gives the states at prefix points to the cache, with what drafters have observed up to there.
void Engine::keep(LaunchedStep& step) {
  for (LaunchedStep::Kept& kept : step.kept) {
    const Generation* const g = step.planned[kept.index].generation;
    if (g == nullptr) continue;
    const Request& request = g->request();
    options_.cache->keep(request.cache_scope(),
                         std::span(request.prompt).first(static_cast<size_t>(kept.position)),
                         kept.state, g->points(), g->context_rows(kept.position));
  }
  step.kept.clear();
}

void Engine::hand_over(const StepRows& rows, const model::StepPlan& plan, const Request& request) {
  if (!request.on_rows || rows.tokens.empty()) return;
  const auto outputs = LayerOutputs::read(model_, plan, request.taps, rows.first_row,
                                          static_cast<int64_t>(rows.tokens.size()));
  if (outputs.ok() && !outputs->views().empty())
    request.on_rows({rows.position, rows.tokens, outputs->views()});
}

void Engine::accept(std::span<const PlannedRows> planned) {
  for (const PlannedRows& p : planned) {
    if (p.generation != nullptr && p.samples) counters_.generated_tokens += p.generation->accept();
  }
}

/// Holds the generations whose next mask takes much work until another thread has computed it.
void Engine::prepare_masks() {
  if (!masks_) return;
  masks_->poll();
  const auto post = [this](OutputConstraint::Job job) {
    ++counters_.masks_beside;
    masks_->post(
        [job = std::move(job)] {
          static thread_local const bool lowered = (lower_thread_priority(), true);
          (void)lowered;
          return job();
        },
        Background::Lane::kQuick);
  };
  for (const auto& g : scheduler_.running()) g->prepare_mask(options_.mask_work, post);
}

void Engine::propose_drafts() {
  if (drafts_ready_) return;
  drafts_ready_ = true;
  prepare_masks();
  drafting_.clear();
  int32_t decoding = 0;
  for (const auto& g : scheduler_.running()) {
    if (!g->prompt_done() || g->finished() || g->held()) continue;
    ++decoding;
    if (g->drafts() != nullptr) drafting_.push_back(g->drafting());
  }
  drafters_.propose(drafting_, decoding, planner_.draft_rows(scheduler_.running()));
  if (options_.draft_memory_full && drafters_.counts().memory_shortages > 0) {
    std::exchange(options_.draft_memory_full, {})();
  }
}

/// One forward pass with all rows, including all decode rows.
Status Engine::compute(LaunchedStep& step) {
  drafts_ready_ = false;
  if (only_decodes(step)) drafters_.settle();
  const auto begun = options_.now();
  step.make_plan();
  auto result = model_.forward(step.plan);
  if (!result.ok() && result.error().code == Error::Code::kOutOfMemory &&
      drop_drafts(step.planned)) {
    step.make_plan();
    result = model_.forward(step.plan);
  }
  if (!result.ok()) return result.error();
  planner_.record(step.planned, seconds_since(begun));
  step.advance();
  sample(step, *result);
  learn(step, seconds_since(begun));
  observe(step, result->taps);
  keep(step);
  accept(step.planned);
  return {};
}

/// One forward pass with the prompt rows of `step_`, interleaved with decode steps.
Status Engine::compute_interleaved() {
  std::erase_if(step_.planned, [](const PlannedRows& p) { return p.decodes(); });
  Status decoded;
  double decoding = 0;
  double longest = 0;
  // Subtracts the longest gap between interleave points: early is better than one gap late.
  const double itl_budget =
      planner_.itl_budget() - std::min(longest_part_, planner_.itl_budget() / 2);
  const auto begun = options_.now();
  auto resumed = begun;
  step_.make_plan();
  step_.plan.interleave = [&] {
    longest = std::max(longest, seconds_since(resumed));
    resumed = options_.now();
    if (!decoded.ok() || seconds_since(last_decode_) < itl_budget) return;
    decoded = decode_once();
    decoding += seconds_since(resumed);
    resumed = options_.now();
  };
  const auto result = model_.forward(step_.plan);
  step_.plan.interleave = {};
  if (!result.ok()) return result.error();
  longest_part_ = longest;
  planner_.record(step_.planned, seconds_since(begun) - decoding);
  step_.advance();
  sample(step_, *result);
  observe(step_, result->taps);
  keep(step_);
  accept(step_.planned);
  return decoded;
}

/// One step of the decoding requests inside another step.
Status Engine::decode_once() {
  propose_drafts();
  StepPlanner::plan_decode(scheduler_.running(), interleaved_.planned);
  return interleaved_.planned.empty() ? Status() : compute(interleaved_);
}

void Engine::finish_cancelled() {
  for (const RequestId id : std::exchange(cancelled_, {})) {
    if (Generation* const found = scheduler_.find(id); found != nullptr && !found->finished()) {
      found->finish(FinishReason::kCancelled);
    }
  }
  drop_finished();
}

void Engine::handle_failure(const Error& error, std::vector<PlannedRows>& planned) {
  std::erase_if(planned, [](const PlannedRows& p) { return p.generation->finished(); });
  drop_finished();
  if (error.code == Error::Code::kOutOfMemory && scheduler_.evict()) return;  // retry the same rows
  if (error.code == Error::Code::kOutOfMemory && scheduler_.running().size() > 1) {
    scheduler_.suspend_youngest();
    return;
  }
  for (const PlannedRows& p : planned) p.generation->finish(FinishReason::kError, error);
}

bool Engine::drop_drafts(std::span<const PlannedRows> planned) {
  bool dropped = false;
  for (const PlannedRows& p : planned) {
    SequenceDrafts* const drafts = p.generation->drafts();
    if (!p.decodes() || drafts == nullptr || drafts->drafts().empty()) continue;
    drafts->drop();
    dropped = true;
  }
  return dropped;
}

void Engine::drop_finished() {
  for (const auto& g : scheduler_.running()) {
    if (g->finished()) warmups_.add(*g);
  }
  scheduler_.drop_finished();
}

}  // namespace chimere::engine
