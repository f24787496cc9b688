#include "engine/speculation/draft_round.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace chimere::engine {
namespace {

using Clock = std::chrono::steady_clock;

/// Steps without drafts are the baseline for drafts: the first few, and one periodically.
constexpr int32_t kFirstPlainSteps = 4;
constexpr int32_t kMaxStepsSincePlain = 64;
/// With this many generations on a GPU, `auto` proposes no drafts: few of them have drafts in the
/// same step, so that the row counts vary and captured CUDA graphs cannot be reused.
constexpr size_t kManyOnGpu = 8;
/// Longest chain of Model::draft().
constexpr int32_t kDepth = 4;

bool plain_step_is_due(const DraftStatistics& statistics, int32_t sequences) {
  return statistics.steps.measured(sequences) < kFirstPlainSteps ||
         statistics.since_plain >= kMaxStepsSincePlain;
}

}  // namespace

void propose_drafts(model::Model& model, std::span<const std::unique_ptr<Generation>> running,
                    int64_t max_rows, DraftStatistics& statistics) {
  std::vector<Generation*> decoding;
  for (const auto& g : running) {
    if (g->prompt_done() && !g->finished()) decoding.push_back(g.get());
  }
  if (std::ranges::none_of(decoding, [](Generation* g) { return g->speculator() != nullptr; })) {
    return;
  }
  const bool many = model.logits_on_gpu() && decoding.size() >= kManyOnGpu;
  const auto n = static_cast<int32_t>(decoding.size());
  // Each verification row holds a row block until the step after it.
  const state::StateStore& states = model.states();
  int64_t free_rows = max_rows;
  if (states.bytes_per_pending_row() > 0) {
    free_rows = std::min(free_rows, states.free_pending_rows(n) - n);
  }
  const auto share = static_cast<int32_t>(std::max<int64_t>(0, free_rows / n));
  const bool plain = plain_step_is_due(statistics, n);
  const DraftCosts costs = {&statistics.steps, &statistics.drafts, n};

  std::vector<Generation*> drafting;
  std::vector<model::DraftStart> starts;
  int32_t depth = 0;
  for (Generation* g : decoding) {
    if (g->speculator() == nullptr) continue;
    if (many && g->request().speculation == Speculation::kAuto) {
      g->speculator()->skip_round();
      continue;
    }
    const int32_t most = plain ? 0 : std::min(share, g->max_drafts());
    if (!g->speculator()->begin(g->history(), most, costs, model.has_drafts())) continue;
    drafting.push_back(g);
    starts.push_back(g->draft_start());
    depth = std::max(depth, std::min(most, kDepth));
  }
  if (drafting.empty()) return;
  std::vector<int32_t> calls(drafting.size());
  const auto begun = Clock::now();
  const Status drafted = model.draft(starts, depth, [&](size_t i, std::span<const float> logits) {
    ++calls[i];
    return drafting[i]->speculator()->choose(logits);
  });
  const std::chrono::duration<double> took = Clock::now() - begun;
  if (!drafted.ok()) return;
  statistics.drafts.add(static_cast<int32_t>(drafting.size()),
                        took.count() / *std::ranges::max_element(calls));
}

}  // namespace chimere::engine
