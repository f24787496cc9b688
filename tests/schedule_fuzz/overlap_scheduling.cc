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
  size_t first = 0;                        ///< position of its first row
  size_t launched = 0;                     ///< rows
  std::vector<kernels::TopLogit> largest;  ///< the largest logit of each row
  std::vector<int32_t> chosen;

  /// Position of the token sampled at row `row`, as the engine counts it.
  uint64_t place(size_t row) const { return first + row + 1; }
};

}  // namespace

void World::overlap_scheduling() {
  std::vector<Runner> runners;
  for (const Job& job : jobs_) {
    const Request& request = request_of(job);
    if (job.state == nullptr || job.state->position() < request.prompt || chance(30)) continue;
    Runner& r = runners.emplace_back();
    r.state = job.state->fork();
    r.first = static_cast<size_t>(job.state->position());
    r.request.tokens.assign(request.tokens.begin(),
                            request.tokens.begin() + static_cast<std::ptrdiff_t>(r.first) + 1);
    r.request.chunks = request.chunks;
    r.request.prompt = request.prompt;
    r.sampling.temperature = chance(30) ? 0.0F : 0.1F * static_cast<float>(1 + below(20));
    r.sampling.top_k = 1 + static_cast<int32_t>(below(40));
    r.sampling.top_p = 0.1F * static_cast<float>(1 + below(10));
    r.sampling.min_p = chance(50) ? 0.0F : 0.1F;
    r.sampling.seed = rng_();
  }
  std::deque<std::vector<size_t>> in_flight;
  const auto launch = [&](std::vector<size_t> active, bool async_token) {
    model::StepPlan plan;
    plan.update_draft_kv = chance(50);
    for (const size_t i : active) {
      Runner& r = runners[i];
      model::SequenceRows& rows = plan.sequences.emplace_back();
      rows.state = r.state.get();
      rows.tokens = {async_token ? 0 : r.request.tokens.back()};
      rows.logits_of = {0};
      const sampling::Sampler sampler(r.sampling);
      rows.top = sampler.needed(kernels::kMaxTopLogits).largest;
      rows.choice = sampler.choice_on_gpu(r.place(r.launched));
      rows.async_token = async_token;
      if (!rows.choice) return fail("sampling from the top-k logits differs from the GPU's");
    }
    const Status launched = model_.launch(plan);
    if (!launched.ok()) {
      ++counts_.refusals;
      if (launched.error().code != Error::Code::kOutOfMemory) fail(launched.error().message);
      return;
    }
    for (const size_t i : active) ++runners[i].launched;
    if (async_token) counts_.async_rows += static_cast<int64_t>(active.size());
    in_flight.push_back(std::move(active));
  };
  const auto wait = [&] {
    const std::vector<size_t> active = std::move(in_flight.front());
    in_flight.pop_front();
    const auto result = model_.wait();
    if (!result.ok()) return fail(result.error().message);
    for (size_t i = 0; i < active.size(); ++i) {
      Runner& r = runners[active[i]];
      r.largest.push_back(result->top.row(static_cast<int64_t>(i))[0]);
      r.chosen.push_back(result->chosen[i]);
      r.request.tokens.push_back(result->chosen[i]);
    }
  };
  std::vector<size_t> all(runners.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (all.empty()) return;
  launch(all, false);
  for (uint32_t more = 1 + below(4); more > 0 && !in_flight.empty() && !failure_; --more) {
    // Some generations end; the result of their row in flight is not read.
    std::vector<size_t> active = in_flight.back();
    std::erase_if(active, [&](size_t) { return chance(15); });
    std::shuffle(active.begin(), active.end(), rng_);
    if (!active.empty()) launch(std::move(active), true);
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
