// Overlap scheduling: steps are launched before the tokens of the preceding step are known.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "engine/engine.h"
#include "kernels/token_choice.h"

namespace chimere::engine {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

/// Launches a decode step whose tokens are sampled on the GPU. `overlapped`: it follows the step in
/// flight and takes its tokens from there. Nothing if a request needs more than that.
std::optional<Engine::InFlight> Engine::launch(const std::vector<Planned>& planned,
                                               bool overlapped) {
  if (!model_.supports_overlap() || planned.size() > kernels::kMaxChoices) return {};
  InFlight step;
  for (const Planned& p : planned) {
    if (p.generation == nullptr) continue;
    if (p.rows > 0 || (overlapped && p.generation->ends_with_next())) return {};
    auto row = p.generation->async_row(overlapped);
    if (!row) return {};
    step.planned.push_back(p);
    step.plan.sequences.push_back(*std::move(row));
    const SequenceDrafts* drafts = p.generation->drafts();
    step.plan.update_draft_kv |= drafts != nullptr && drafts->updates_draft_kv_of_decode();
  }
  step.launched = Clock::now();
  // Errors recur in forward(), which reports them.
  if (!model_.launch(step.plan).ok()) return {};
  return step;
}

/// Whether the next step is determined except for its tokens.
bool Engine::may_overlap() const {
  const auto live = std::ranges::count_if(in_flight_->planned,
                                          [](const Planned& p) { return p.generation != nullptr; });
  const bool look_at_drafts =
      overlapped_steps_ >= SequenceDrafts::kIdleAfter &&
      std::ranges::any_of(running_, [](const auto& g) { return g->drafts() != nullptr; });
  return cancelled_.empty() && waiting_.empty() && !look_at_drafts &&
         static_cast<size_t>(live) == running_.size() && (counters_.steps + 1) % kStepsPerSave != 0;
}

/// Launches the next step, if possible, before waiting for the one in flight.
void Engine::finish_in_flight() {
  std::optional<InFlight> next;
  if (may_overlap()) next = launch(in_flight_->planned, true);
  overlapped_steps_ += static_cast<int32_t>(next.has_value());
  const InFlight step = *std::exchange(in_flight_, {});
  const auto result = model_.wait();
  if (result.ok()) {
    const double seconds =
        std::chrono::duration<double>(Clock::now() - std::max(step.launched, last_decode_)).count();
    measure_prefill_budget(step.planned, seconds);
    learn(step.plan, seconds);
    choose(step.planned, *result);
    accept(step.planned);
  } else {
    for (const Planned& p : step.planned) {
      if (p.generation != nullptr) p.generation->finish(FinishReason::kError, result.error());
    }
  }
  if (!next) return;
  // The row of a generation that has ended meanwhile is wasted.
  bool live = false;
  for (Planned& p : next->planned) {
    if (p.generation->finished()) p.generation = nullptr;
    live |= p.generation != nullptr;
  }
  in_flight_ = std::move(next);
  if (live) return;
  (void)model_.wait();
  in_flight_.reset();
}

}  // namespace chimere::engine
