// Prefix-cache warm-up: prompts that the engine computes while it is idle.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/prefix_points.h"
#include "kernels/api.h"
#include "model/chunking.h"

namespace chimere::engine {
namespace {

// Bounds the delay of a request that arrives during a warm-up step.
constexpr int64_t kWarmupRows = 2 * kernels::kMaxChunkRows;
constexpr size_t kMaxWarmups = 16;

}  // namespace

int64_t Engine::stable_end_of(std::span<const int32_t> tokens) const {
  int64_t end = 0;
  std::vector<int64_t> ends;
  for (const int32_t size : model::chunk_sizes(tokens, message_starts_)) {
    end += size;
    ends.push_back(end);
  }
  return stable_end(ends);
}

/// Schedules the tokens of a finished generation to be computed as prompt: the next turn of the
/// conversation begins with them, unless the template renders the generation differently.
void Engine::plan_warmup(const Generation& finished) {
  const Request& request = finished.request();
  if (!request.use_cache || !request.warmup || !finished.prompt_done()) return;
  if (finished.reason() != FinishReason::kStop && finished.reason() != FinishReason::kLength)
    return;
  const int64_t stable = stable_end_of(finished.history());
  if (stable <= stable_end(finished.chunk_ends()))
    return;  // the request has already cached this prefix
  Request again;
  again.owner = request.owner;
  again.shared_cache = request.shared_cache;
  again.prompt.assign(finished.history().begin(), finished.history().begin() + stable);
  add_warmup(std::move(again));
}

void Engine::warmup(const std::string& owner, std::vector<int32_t> tokens) {
  const auto size = static_cast<int64_t>(tokens.size());
  if (options_.cache == nullptr || size >= options_.context) return;
  const auto exists = [&](int32_t token) { return token >= 0 && token < model_.n_vocab(); };
  const int64_t stable = std::ranges::all_of(tokens, exists) ? stable_end_of(tokens) : 0;
  if (stable == 0) return;
  Request request;
  request.owner = owner;
  request.prompt = std::move(tokens);
  request.prompt.resize(static_cast<size_t>(stable));
  add_warmup(std::move(request));
}

void Engine::add_warmup(Request again) {
  warmups_.push_back(std::move(again));
  if (warmups_.size() <= kMaxWarmups) return;
  warmups_.pop_front();
  ++counters_.warmups_dropped;
}

void Engine::drop_warmup() {
  counters_.warmups_dropped += warmup_ != nullptr ? 1 : 0;
  warmup_.reset();
}

bool Engine::start_warmup() {
  while (!warmups_.empty()) {
    auto next = std::make_unique<Generation>(0, std::move(warmups_.back()), message_starts_,
                                             generation_options(true), tokenizer_, drafters_);
    warmups_.pop_back();
    const Request& request = next->request();
    if (options_.cache->has(request.cache_scope(), request.prompt)) {
      ++counters_.warmups_cached;
      continue;
    }
    auto found =
        options_.cache->find(request.cache_scope(), request.prompt, next->chunk_ends(), nullptr);
    if (found.state) next->resume_from(*std::move(found.state), found.tier);
    if (!make_room_for(*next) || !next->start(model_.states()).ok()) {
      ++counters_.warmups_dropped;
      continue;
    }
    warmup_ = std::move(next);
    return true;
  }
  return false;
}

bool Engine::work_while_idle() {
  if (options_.cache == nullptr) return false;
  if (warmup_ == nullptr && !start_warmup()) {
    (void)options_.cache->save_one();
    return false;
  }
  Generation& g = *warmup_;
  int64_t rows = 0;
  for (int32_t chunk = g.next_chunk(0); chunk > 0 && rows + chunk <= kWarmupRows;
       chunk = g.next_chunk(rows)) {
    rows += chunk;
  }
  model::StepPlan plan;
  plan.sequences.push_back(g.prompt_rows(rows));
  plan.sequences.back().logits_of.clear();
  if (!model_.forward(plan).ok()) {
    drop_warmup();
    return true;
  }
  g.advance_prompt(rows);
  counters_.warmup_tokens += rows;
  const auto prefix = std::span(g.request().prompt).first(static_cast<size_t>(g.position()));
  if (g.at_point() || g.prompt_done()) {
    options_.cache->keep(g.request().cache_scope(), prefix, g.checkpoint(), g.points());
  }
  if (g.prompt_done()) {
    warmup_.reset();
    ++counters_.warmups_computed;
  }
  return true;
}

}  // namespace chimere::engine
