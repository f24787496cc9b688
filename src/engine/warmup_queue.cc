#include "engine/warmup_queue.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/prefix_points.h"
#include "kernels/api.h"

namespace chimere::engine {
namespace {

// Bounds the delay of a request that arrives during a warm-up step.
constexpr int64_t kWarmupRows = 2 * kernels::kMaxChunkRows;

}  // namespace

WarmupQueue::WarmupQueue(model::Model& model, PrefixCache* cache, GenerationFactory& generations,
                         Drafters& drafters, std::function<bool(const Generation&)> make_room)
    : model_(model),
      cache_(cache),
      generations_(generations),
      drafters_(drafters),
      make_room_(std::move(make_room)) {}

void WarmupQueue::add(const Generation& finished) {
  const Request& request = finished.request();
  if (cache_ == nullptr || !request.use_cache || !request.warmup || !finished.prompt_done()) return;
  if (finished.reason() != FinishReason::kStop && finished.reason() != FinishReason::kLength)
    return;
  const int64_t stable = generations_.stable_end_of(finished.history());
  if (stable <= stable_end(finished.chunk_ends()))
    return;  // the request has already cached this prefix
  Request again;
  again.owner = request.owner;
  again.shared_cache = request.shared_cache;
  again.adapters = request.adapters;
  again.speculation = request.speculation;
  again.prompt.assign(finished.history().begin(), finished.history().begin() + stable);
  push(std::move(again));
}

void WarmupQueue::add(const std::string& owner, std::vector<int32_t> tokens,
                      std::optional<std::string> shared_cache, RequestAdapters adapters,
                      Speculation speculation) {
  if (cache_ == nullptr) return;
  const auto exists = [&](int32_t token) { return token >= 0 && token < model_.n_vocab(); };
  const int64_t stable =
      std::ranges::all_of(tokens, exists) ? generations_.stable_end_of(tokens) : 0;
  if (stable == 0) return;
  Request request;
  request.owner = owner;
  request.shared_cache = std::move(shared_cache);
  request.adapters = std::move(adapters);
  request.speculation = speculation;
  request.prompt = std::move(tokens);
  request.prompt.resize(static_cast<size_t>(stable));
  push(std::move(request));
}

void WarmupQueue::push(Request request) {
  waiting_.push_back(std::move(request));
  if (waiting_.size() <= kMaxWaiting) return;
  waiting_.pop_front();
  ++counters_.dropped;
}

bool WarmupQueue::release() {
  if (current_ == nullptr) return false;
  ++counters_.dropped;
  current_.reset();
  return true;
}

void WarmupQueue::clear() {
  counters_.dropped += static_cast<int64_t>(waiting_.size());
  waiting_.clear();
  (void)release();
}

bool WarmupQueue::start_next() {
  while (!waiting_.empty()) {
    std::unique_ptr<Generation> next = generations_.make(0, std::move(waiting_.back()), true);
    waiting_.pop_back();
    const Request& request = next->request();
    if (cache_->has(request.cache_scope(), request.prompt)) {
      ++counters_.cached;
      continue;
    }
    auto found = cache_->find(request.cache_scope(), request.prompt, next->chunk_ends(), nullptr);
    if (found.state) {
      next->resume_from(*std::move(found.state), found.tier, std::move(found.context_rows));
    }
    if (!make_room_(*next) || !next->start(model_.states()).ok()) {
      ++counters_.dropped;
      continue;
    }
    current_ = std::move(next);
    return true;
  }
  return false;
}

bool WarmupQueue::work() {
  if (cache_ == nullptr) return false;
  if (current_ == nullptr && !start_next()) {
    (void)cache_->save_one();
    return false;
  }
  Generation& g = *current_;
  int64_t rows = 0;
  for (int32_t chunk = g.next_chunk(0); chunk > 0 && rows + chunk <= kWarmupRows;
       chunk = g.next_chunk(rows)) {
    rows += chunk;
  }
  model::StepPlan plan;
  g.prompt_rows(rows, plan.sequences.emplace_back());
  plan.sequences.back().logits_of.clear();
  SequenceDrafts* const drafts = g.drafts();
  if (drafts != nullptr) drafts->add_needs(plan, /*prompt=*/true);
  const auto result = model_.forward(plan);
  if (!result.ok()) {
    (void)release();
    return true;
  }
  g.advance_prompt(rows);
  counters_.tokens += rows;
  const auto [tokens, position] = g.kept_rows(rows);
  const StepRows computed = {drafts, tokens, position, /*first_row=*/0, /*prompt=*/true};
  drafters_.observe(plan, result->taps, {&computed, 1});
  const auto prefix = std::span(g.request().prompt).first(static_cast<size_t>(g.position()));
  if (g.at_point() || g.prompt_done()) {
    cache_->keep(g.request().cache_scope(), prefix, g.checkpoint(), g.points(),
                 g.context_rows(g.position()));
  }
  if (g.prompt_done()) {
    current_.reset();
    ++counters_.computed;
  }
  return true;
}

}  // namespace chimere::engine
