#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/api.h"

namespace chimere::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// Recurrent states that a single request needs: its own, and a second one while a step writes it.
constexpr int64_t kSlotsAlone = 2;
/// Steps between two reads of the model's expert counters, which may be in GPU memory.
constexpr int64_t kStepsPerExpertUse = 64;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

Engine::Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      running_limit_(static_cast<size_t>(options.max_running)),
      prefill_budget_(options.max_itl_ratio),
      drafters_(model, options.drafters) {
  const int32_t start = tokenizer.find("<|im_start|>");
  if (start >= 0) message_starts_.push_back(start);
}

Result<std::unique_ptr<Engine>> Engine::create(model::Model& model,
                                               const text::Tokenizer& tokenizer,
                                               const EngineOptions& options) {
  if (model.pooling() != model::Pooling::kNone) {
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
    const int64_t capacity = states.free_pages(kSlotsAlone) * states.spec().page_tokens;
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
  if (request.max_tokens == 0 || request.max_tokens < -1) {
    return invalid_argument(
        "A generation needs at least one token (or -1: no limit), but max-tokens is " +
        std::to_string(request.max_tokens) + ".");
  }
  CHIMERE_CHECK_OK(check_tokens(request.prompt, "prompt"));
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
  const bool cached = options_.cache != nullptr && request.use_cache;
  waiting_.push_back(std::make_unique<Generation>(
      id, std::move(request), message_starts_, generation_options(cached), tokenizer_, drafters_));
}

Generation::Options Engine::generation_options(bool cached) const {
  return {options_.context, cached, model_.n_vocab(), model_.logits_on_gpu()};
}

EngineCounters Engine::counters() const {
  EngineCounters now = counters_;
  now.running = static_cast<int64_t>(running_.size());
  now.waiting = static_cast<int64_t>(waiting_.size());
  now.warmups_waiting = static_cast<int64_t>(warmups_.size()) + (warmup_ != nullptr ? 1 : 0);
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
  counters_.warmups_dropped += static_cast<int64_t>(warmups_.size());
  warmups_.clear();
  drop_warmup();
}

Engine::~Engine() {
  if (in_flight_) (void)model_.wait();
}

bool Engine::step() {
  if (in_flight_) {
    finish_in_flight();
  } else {
    finish_cancelled();
    if (options_.cache != nullptr) options_.cache->poll();
    admit();
    propose_drafts();
    std::vector<Planned> planned = plan_rows();
    if (planned.empty()) {
      if (waiting_.empty()) return work_while_idle();
      // All waiting requests wait for reads from disk.
      if (options_.cache != nullptr) options_.cache->wait();
      return true;
    }
    begin_step(std::move(planned));
  }
  if (in_flight_) {
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

/// Launches the step asynchronously, or computes it if its tokens must be sampled on the host.
void Engine::begin_step(std::vector<Planned> planned) {
  overlapped_steps_ = 0;
  in_flight_ = launch(planned, false);
  if (in_flight_) {
    drafts_ready_ = false;
    return;
  }
  const Status computed =
      worth_interleaving(planned) ? compute_interleaved(planned) : compute(planned);
  if (!computed.ok()) handle_failure(computed.error(), std::move(planned));
}

void Engine::propose_drafts() {
  if (drafts_ready_) return;
  drafts_ready_ = true;
  std::vector<DraftingSequence> drafting;
  int32_t decoding = 0;
  for (const auto& g : running_) {
    if (!g->prompt_done() || g->finished()) continue;
    ++decoding;
    if (g->drafts() != nullptr) drafting.push_back(g->drafting());
  }
  drafters_.propose(drafting, decoding, draft_rows());
}

/// One forward pass with all rows, including all decode rows.
Status Engine::compute(const std::vector<Planned>& planned) {
  drafts_ready_ = false;
  const Clock::time_point begun = Clock::now();
  model::StepPlan plan = make_plan(planned);
  auto result = model_.forward(plan);
  if (!result.ok() && result.error().code == Error::Code::kOutOfMemory && drop_drafts(planned)) {
    plan = make_plan(planned);
    result = model_.forward(plan);
  }
  if (!result.ok()) return result.error();
  measure_prefill_budget(planned, seconds_since(begun));
  choose(planned, *result);
  learn(plan, seconds_since(begun));
  accept(planned);
  return {};
}

bool Engine::worth_interleaving(const std::vector<Planned>& planned) const {
  const auto [generations, prompt_rows] = count_rows(planned);
  return model_.can_interleave() && prefill_budget_.too_slow(generations, prompt_rows);
}

/// One forward pass with the prompt rows, interleaved with decode steps.
Status Engine::compute_interleaved(const std::vector<Planned>& planned) {
  std::vector<Planned> prompts;
  std::ranges::copy_if(planned, std::back_inserter(prompts),
                       [](const Planned& p) { return p.rows > 0; });
  Status decoded;
  double decoding = 0;
  double longest = 0;
  // Subtracts the longest gap between interleave points: early is better than one gap late.
  const double itl_budget =
      prefill_budget_.itl_budget() - std::min(longest_part_, prefill_budget_.itl_budget() / 2);
  const Clock::time_point begun = Clock::now();
  Clock::time_point resumed = begun;
  model::StepPlan plan = make_plan(prompts);
  plan.interleave = [&] {
    longest = std::max(longest, seconds_since(resumed));
    resumed = Clock::now();
    if (!decoded.ok() || seconds_since(last_decode_) < itl_budget) return;
    decoded = generate_once();
    decoding += seconds_since(resumed);
    resumed = Clock::now();
  };
  const auto result = model_.forward(plan);
  if (!result.ok()) return result.error();
  longest_part_ = longest;
  measure_prefill_budget(prompts, seconds_since(begun) - decoding);
  choose(prompts, *result);
  accept(prompts);
  return decoded;
}

/// One step of the decoding requests.
Status Engine::generate_once() {
  propose_drafts();
  std::vector<Planned> generations;
  for (const auto& g : running_) {
    if (g->prompt_done() && !g->finished()) generations.push_back({g.get(), 0});
  }
  return generations.empty() ? Status() : compute(generations);
}

void Engine::accept(const std::vector<Planned>& planned) {
  for (const Planned& p : planned) {
    if (p.generation == nullptr || !p.generation->prompt_done()) continue;
    counters_.generated_tokens += p.generation->accept();
  }
}

void Engine::measure_prefill_budget(const std::vector<Planned>& planned, double seconds) {
  const auto [generations, prompt_rows] = count_rows(planned);
  prefill_budget_.record(generations, prompt_rows, seconds);
}

Engine::RowCounts Engine::count_rows(const std::vector<Planned>& planned) {
  RowCounts counts;
  for (const Planned& p : planned) {
    counts.generations += p.rows == 0;
    counts.prompt_rows += p.rows;
  }
  return counts;
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
  int64_t free = states.free_pages(kSlotsAlone);
  // What running requests still need for their prompts, plus one page each for their generations.
  for (const auto& g : running_) {
    free -=
        pages_for(g->prompt_size()) - pages_for(std::min(g->tokens_seen(), g->prompt_size())) + 1;
  }
  const int64_t shared = candidate.has_prefix() && states.bytes_per_token() > 0
                             ? candidate.position() / states.spec().page_tokens
                             : 0;
  return pages_for(std::max(candidate.prompt_size(), candidate.tokens_seen())) - shared + 1 <= free;
}

/// Index of the next request to admit, ignoring those in `skipped`: the oldest one of the owner
/// with the fewest running requests; waiting_.size() if there is none.
size_t Engine::next_waiting(const std::set<RequestId>& skipped) const {
  std::map<std::string_view, size_t> running;
  for (const auto& g : running_) ++running[g->owner()];
  size_t best = waiting_.size();
  size_t fewest = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (skipped.contains(waiting_[i]->id())) continue;
    const auto found = running.find(waiting_[i]->owner());
    const size_t n = found == running.end() ? 0 : found->second;
    if (best == waiting_.size() || n < fewest) {
      best = i;
      fewest = n;
    }
  }
  return best;
}

/// Attaches the longest cached prefix to the request. False while it is being read from disk.
bool Engine::look_up(Generation& candidate) {
  const Request& request = candidate.request();
  if (options_.cache == nullptr || !request.use_cache || candidate.has_prefix() ||
      candidate.suspended()) {
    return true;
  }
  PrefixCache::Found found = options_.cache->find(request.cache_scope(), request.prompt,
                                                  candidate.chunk_ends(), &candidate.search);
  if (found.loading) return false;
  // A state that was read for this request is in the state store by now: count it as a disk hit.
  const bool was_read = candidate.search.loads > 0 && found.tier == CacheTier::kDevice;
  if (found.state) {
    candidate.resume_from(*std::move(found.state), was_read ? CacheTier::kDisk : found.tier);
  }
  return true;
}

/// Releases memory that no request needs. False if there is none.
bool Engine::evict() {
  if (warmup_ != nullptr) {
    drop_warmup();
    return true;
  }
  return options_.cache != nullptr && options_.cache->evict();
}

bool Engine::make_room_for(const Generation& candidate) {
  while (!has_room_for(candidate)) {
    if (!evict()) return false;
  }
  return true;
}

void Engine::admit() {
  const size_t limit = std::min(running_limit_, static_cast<size_t>(options_.max_running));
  std::set<RequestId> loading;
  while (running_.size() < limit) {
    const size_t index = next_waiting(loading);
    if (index == waiting_.size()) return;
    Generation& next = *waiting_[index];
    if (!look_up(next)) {
      loading.insert(next.id());
      continue;
    }
    // A single request may use everything; if that is not enough, its step reports the error.
    if (!make_room_for(next) && !running_.empty()) {
      // A request that waits for memory must not hold any.
      if (next.has_prefix() && next.prefix_tier() != CacheTier::kRequest) {
        next.drop_prefix();
      }
      return;
    }
    const bool returns = next.suspended();
    const Status started = next.start(model_.states());
    if (!started.ok()) {
      const bool full = started.error().code == Error::Code::kOutOfMemory;
      if (full && evict()) continue;
      if (full && !running_.empty()) return;
      next.finish(FinishReason::kError, started.error());
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    if (options_.cache != nullptr && !returns) {
      options_.cache->count(next.prefix_tier(), next.position());
    }
    running_.push_back(std::move(waiting_[index]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
    std::ranges::sort(running_, {}, [](const auto& g) { return g->id(); });
  }
}

std::vector<Engine::Planned> Engine::plan_rows() {
  std::vector<Planned> planned;
  int64_t decoding_rows = 0;
  std::map<std::string_view, std::vector<Planned>> prefilling;  // by owner
  for (const auto& g : running_) {
    if (g->prompt_done()) {
      planned.push_back({g.get(), 0});
      decoding_rows += g->decode_size();
    } else {
      prefilling[g->owner()].push_back({g.get(), 0});
    }
  }
  if (prefilling.empty()) return planned;
  const auto generations = static_cast<int64_t>(planned.size());
  int64_t budget = prefill_budget_.prompt_rows(generations, options_.max_step_rows - decoding_rows);
  // Round-robin over the owners, and over each owner's requests, one chunk at a time; the starting
  // position rotates from step to step.
  std::vector<std::vector<Planned>*> owners;
  for (auto& [owner, requests] : prefilling) owners.push_back(&requests);
  const auto rotate = [](auto& list, size_t by) {
    std::ranges::rotate(list, list.begin() + static_cast<std::ptrdiff_t>(by % list.size()));
  };
  for (std::vector<Planned>* requests : owners) rotate(*requests, turn_ / owners.size());
  rotate(owners, turn_++);
  const auto add_chunk = [&](std::vector<Planned>& requests) {
    for (Planned& p : requests) {
      const int32_t chunk = p.generation->next_chunk(p.rows);
      if (chunk == 0 || chunk > budget) continue;
      p.rows += chunk;
      budget -= chunk;
      rotate(requests, 1);
      return true;
    }
    return false;
  };
  for (bool added = true; added;) {
    added = false;
    for (std::vector<Planned>* requests : owners) added |= add_chunk(*requests);
  }
  for (const std::vector<Planned>* requests : owners) {
    std::ranges::copy_if(*requests, std::back_inserter(planned),
                         [](const Planned& p) { return p.rows > 0; });
  }
  return planned;
}

void Engine::handle_failure(const Error& error, std::vector<Planned> planned) {
  std::erase_if(planned, [](const Planned& p) { return p.generation->finished(); });
  drop_finished();
  if (error.code == Error::Code::kOutOfMemory && evict()) return;  // retry the same rows
  if (error.code == Error::Code::kOutOfMemory && running_.size() > 1) {
    running_.back()->suspend();
    const auto place = std::ranges::find_if(
        waiting_, [&](const auto& g) { return g->id() > running_.back()->id(); });
    waiting_.insert(place, std::move(running_.back()));
    running_.pop_back();
    running_limit_ = running_.size();
    ++counters_.evictions;
    return;
  }
  for (const Planned& p : planned) p.generation->finish(FinishReason::kError, error);
}

void Engine::choose(const std::vector<Planned>& planned, const model::StepResult& result) {
  struct Choosing {
    Generation* generation = nullptr;
    model::StepResult rows;
    int64_t first_top = 0;  ///< index in the step's partial logits
  };
  std::vector<Choosing> choosing;
  int64_t generations = 0;
  int64_t first = 0;      // index of the next whole row
  int64_t first_top = 0;  // index of the next row of partial logits
  for (const Planned& p : planned) {
    if (p.generation == nullptr) {
      ++first_top;
      continue;
    }
    int64_t rows = 1;
    if (p.rows > 0) {
      p.generation->advance_prompt(p.rows);
      counters_.prompt_tokens += p.rows;
      if (p.generation->at_point()) {
        const Request& request = p.generation->request();
        options_.cache->keep(
            request.cache_scope(),
            std::span(request.prompt).first(static_cast<size_t>(p.generation->position())),
            p.generation->checkpoint(), p.generation->points());
      }
      if (!p.generation->prompt_done()) continue;
    } else {
      p.generation->advance_decode();
      ++generations;
      rows = p.generation->decode_size();
    }
    Choosing& c = choosing.emplace_back(Choosing{p.generation, {}, first_top});
    if (p.generation->from_partial_logits()) {
      c.rows.top = {result.top.row(first_top).data(), rows, result.top.count};
      if (result.selected.rows > 0) {
        c.rows.selected = {result.selected.row(first_top).data(), rows, result.selected.count};
      }
      if (result.sums != nullptr) c.rows.sums = result.sums + first_top;
      if (result.chosen != nullptr) c.rows.chosen = result.chosen + first_top;
      first_top += rows;
    } else {
      c.rows.logits = {result.logits.row(first), rows, result.logits.cols, result.logits.stride};
      first += rows;
    }
  }
  const auto choose = [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t i = begin; i < end; ++i) {
      const Choosing& c = choosing[static_cast<size_t>(i)];
      c.generation->choose(c.rows, [&](int64_t row, std::span<float> out) {
        return model_.read_logits(c.first_top + row, out);
      });
    }
  };
  const auto n = static_cast<int64_t>(choosing.size());
  if (options_.pool != nullptr) {
    options_.pool->parallel_for(n, 1, choose);
  } else {
    choose(0, n, 0);
  }
  ++counters_.steps;
  if (generations > 0) {
    counters_.batch.add(static_cast<double>(generations));
    last_decode_ = Clock::now();
  }
}

model::StepPlan Engine::make_plan(const std::vector<Planned>& planned) {
  model::StepPlan plan;
  for (const Planned& p : planned) {
    plan.sequences.push_back(p.rows > 0 ? p.generation->prompt_rows(p.rows)
                                        : p.generation->decode_rows());
    const SequenceDrafts* drafts = p.generation->drafts();
    if (drafts == nullptr) continue;
    plan.update_draft_kv |=
        p.rows > 0 ? drafts->updates_draft_kv_of_prompt() : drafts->updates_draft_kv_of_decode();
  }
  return plan;
}

int64_t Engine::draft_rows() const {
  int64_t decoding = 0;
  bool prefilling = false;
  for (const auto& g : running_) {
    if (g->prompt_done()) {
      ++decoding;
    } else {
      prefilling = true;
    }
  }
  return options_.max_step_rows - decoding - (prefilling ? kernels::kMaxChunkRows : 0);
}

bool Engine::drop_drafts(const std::vector<Planned>& planned) {
  bool dropped = false;
  for (const Planned& p : planned) {
    SequenceDrafts* drafts = p.generation->drafts();
    if (p.rows > 0 || drafts == nullptr || drafts->drafts().empty()) continue;
    drafts->drop();
    dropped = true;
  }
  return dropped;
}

/// Records the cost of a decode step; steps with prompt rows are not comparable.
void Engine::learn(const model::StepPlan& plan, double seconds) {
  size_t rows = 0;
  for (const model::SequenceRows& s : plan.sequences) {
    if (s.row_class == model::RowClass::kPrefill) return;
    rows += s.tokens.size();
  }
  drafters_.record_step(static_cast<int32_t>(rows), static_cast<int32_t>(plan.sequences.size()),
                        seconds);
}

void Engine::drop_finished() {
  if (options_.cache != nullptr) {
    for (const auto& g : running_) {
      if (g->finished()) plan_warmup(*g);
    }
  }
  const auto finished = [](const auto& g) { return g->finished(); };
  const size_t dropped = std::erase_if(running_, finished) + std::erase_if(waiting_, finished);
  if (dropped > 0) running_limit_ = static_cast<size_t>(options_.max_running);
}

}  // namespace chimere::engine
