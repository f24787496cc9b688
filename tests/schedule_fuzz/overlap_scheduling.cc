// Overlap scheduling: steps are launched before the tokens of the previous ones are known; the
// device samples them.
#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "fleet.h"
#include "sampling/sampler.h"
#include "world.h"

namespace chimere::fuzz {
namespace {

/// A fork of a job with its own generation.
struct Runner {
  std::unique_ptr<state::SequenceState> state;
  Request request;  ///< up to the newest known token
  sampling::SamplingParams sampling;
  size_t first = 0;                        ///< position of its first row whose token is sampled
  size_t launched = 0;                     ///< such rows
  std::vector<kernels::TopLogit> largest;  ///< the largest logit of each row
  std::vector<int32_t> chosen;

  /// Position of the token sampled at row `row`, as the engine counts it.
  uint64_t place(size_t row) const { return first + row + 1; }
  /// Size of the prompt's next chunk; 0: the prompt is complete.
  int32_t next_chunk() const {
    int32_t end = 0;
    for (const int32_t size : request.chunks) {
      end += size;
      if (end > state->position()) return end - state->position();
    }
    return 0;
  }
};

struct Launched {
  std::vector<size_t> runners;
  std::vector<size_t> sampled;  ///< those whose tokens the step samples
};

}  // namespace

void World::overlap_scheduling() {
  std::vector<Runner> runners;
  int prompts = 0;
  for (const Job& job : jobs_) {
    const Request& request = request_of(job);
    if (job.state == nullptr || chance(30)) continue;
    // Two prompts fit into any step.
    prompts += static_cast<int>(job.state->position() < request.prompt);
    if (job.state->position() < request.prompt && prompts > 2) continue;
    Runner& r = runners.emplace_back();
    r.state = job.state->fork();
    r.first = static_cast<size_t>(std::max(job.state->position(), request.prompt - 1));
    r.request.tokens.assign(request.tokens.begin(),
                            request.tokens.begin() + static_cast<std::ptrdiff_t>(r.first) + 1);
    r.request.chunks = request.chunks;
    r.request.adapters = request.adapters;
    r.request.prompt = request.prompt;
    r.sampling.temperature = chance(30) ? 0.0F : 0.1F * static_cast<float>(1 + below(20));
    r.sampling.top_k = 1 + static_cast<int32_t>(below(40));
    r.sampling.top_p = 0.1F * static_cast<float>(1 + below(10));
    r.sampling.min_p = chance(50) ? 0.0F : 0.1F;
    r.sampling.seed = rng_();
  }
  std::deque<Launched> in_flight;
  const auto launch = [&](std::vector<size_t> active) {
    Launched step;
    step.runners = std::move(active);
    model::StepPlan plan;
    plan.update_draft_kv = chance(50);
    bool any_async = false;
    for (const size_t i : step.runners) {
      Runner& r = runners[i];
      model::SequenceRows& rows = plan.sequences.emplace_back();
      rows.state = r.state.get();
      rows.adapters = r.request.adapters;
      if (const int32_t chunk = r.next_chunk(); chunk > 0) {
        const auto begin = r.request.tokens.begin() + r.state->position();
        rows.row_class = model::RowClass::kPrefill;
        rows.tokens.assign(begin, begin + chunk);
        rows.chunks = {chunk};
        if (r.state->position() + chunk < r.request.prompt) continue;
      } else {
        rows.async_token = r.launched > 0;
        rows.tokens = {rows.async_token ? 0 : r.request.tokens.back()};
        any_async |= rows.async_token;
      }
      step.sampled.push_back(i);
      rows.logits_of = {static_cast<int32_t>(rows.tokens.size()) - 1};
      const sampling::Sampler sampler(r.sampling);
      rows.top = sampler.needed(kernels::kMaxTopLogits).largest;
      rows.choice = sampler.choice_on_gpu(r.place(r.launched));
      if (!rows.choice) return fail("sampling from the top-k logits differs from the GPU's");
    }
    const Status launched = model_.launch(plan);
    if (!launched.ok()) {
      ++counts_.refusals;
      if (launched.error().code != Error::Code::kOutOfMemory) fail(launched.error().message);
      return;
    }
    for (const size_t i : step.sampled) ++runners[i].launched;
    if (any_async) counts_.async_rows += static_cast<int64_t>(step.sampled.size());
    in_flight.push_back(std::move(step));
  };
  const auto wait = [&] {
    const std::vector<size_t> sampled = std::move(in_flight.front().sampled);
    in_flight.pop_front();
    const auto result = model_.wait();
    if (!result.ok()) return fail(result.error().message);
    for (size_t i = 0; i < sampled.size(); ++i) {
      Runner& r = runners[sampled[i]];
      r.largest.push_back(result->top.row(static_cast<int64_t>(i))[0]);
      r.chosen.push_back(result->chosen[i]);
      r.request.tokens.push_back(result->chosen[i]);
    }
  };
  std::vector<size_t> all(runners.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.empty()) return;
  launch(all);
  for (uint32_t more = 1 + below(6); more > 0 && !in_flight.empty() && !failure_; --more) {
    // Some generations end; the result of their row in flight is not read.
    std::vector<size_t> active = in_flight.back().runners;
    std::erase_if(active, [&](size_t) { return chance(15); });
    std::shuffle(active.begin(), active.end(), rng_);
    if (!active.empty()) launch(std::move(active));
    wait();
  }
  while (!in_flight.empty()) wait();
  for (Runner& r : runners) {
    if (failure_ || r.chosen.empty()) continue;
    r.state.reset();
    // The last sampled token has no row.
    r.request.tokens.pop_back();
    const auto logits = run_solo(solo_, r.request);
    if (!logits.ok()) return fail("solo run: " + logits.error().message);
    for (size_t row = 0; row < r.chosen.size(); ++row) {
      const auto want = std::span(*logits).subspan((r.first + row) * kVocabulary, kVocabulary);
      const auto token = sampling::Sampler(r.sampling).sample(want, {}, r.place(row));
      const float largest = *std::ranges::max_element(want);
      const bool same =
          token.ok() && token->id == r.chosen[row] &&
          std::bit_cast<uint32_t>(largest) == std::bit_cast<uint32_t>(r.largest[row].value);
      if (same) continue;
      return fail("row " + std::to_string(row) + " of an asynchronous generation after " +
                  "position " + std::to_string(r.first) + " differs from its solo run");
    }
  }
}

}  // namespace chimere::fuzz
