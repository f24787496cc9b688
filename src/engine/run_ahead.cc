// Steps that the engine launches before it knows the tokens of the ones before them.
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

/// A step of replies alone whose tokens the model chooses, `behind` the one under way: its rows are
/// what that one chooses. Nothing if somebody needs more than that.
std::optional<Engine::UnderWay> Engine::launch(const std::vector<Planned>& planned, bool behind) {
  if (!model_.feeds_tokens() || planned.size() > kernels::kMostChoices) return {};
  UnderWay step;
  for (const Planned& p : planned) {
    if (p.generation == nullptr) continue;
    if (p.rows > 0 || (behind && p.generation->ends_with_next())) return {};
    auto row = p.generation->launched_row(behind);
    if (!row) return {};
    step.planned.push_back(p);
    step.plan.sequences.push_back(*std::move(row));
    const Speculator* speculator = p.generation->speculator();
    step.plan.feed_drafts |= speculator != nullptr && speculator->feeds_reply();
  }
  step.launched = Clock::now();
  // What goes wrong does so again in forward(), which says what it is.
  if (!model_.launch(step.plan).ok()) return {};
  return step;
}

/// Whether the step behind the one under way is known but for its tokens.
bool Engine::may_run_ahead() const {
  const auto live = std::ranges::count_if(under_way_->planned,
                                          [](const Planned& p) { return p.generation != nullptr; });
  const bool look_at_drafts =
      steps_ahead_ >= Speculator::kRestsAfter &&
      std::ranges::any_of(running_, [](const auto& g) { return g->speculator() != nullptr; });
  return cancelled_.empty() && waiting_.empty() && !look_at_drafts &&
         static_cast<size_t>(live) == running_.size() && (counters_.steps + 1) % kStepsPerSave != 0;
}

/// Before it waits for the step under way it launches the one behind it, if it can.
void Engine::finish_under_way() {
  std::optional<UnderWay> next;
  if (may_run_ahead()) next = launch(under_way_->planned, true);
  steps_ahead_ += static_cast<int32_t>(next.has_value());
  const UnderWay step = *std::exchange(under_way_, {});
  const auto result = model_.wait();
  if (result.ok()) {
    const double seconds =
        std::chrono::duration<double>(Clock::now() - std::max(step.launched, last_replies_))
            .count();
    measure_pace(step.planned, seconds);
    learn(step.plan, seconds);
    choose(step.planned, *result);
    accept(step.planned);
  } else {
    for (const Planned& p : step.planned) {
      if (p.generation != nullptr) p.generation->finish(FinishReason::kError, result.error());
    }
  }
  if (!next) return;
  // The row of a reply that has ended is computed in vain.
  bool live = false;
  for (Planned& p : next->planned) {
    if (p.generation->finished()) p.generation = nullptr;
    live |= p.generation != nullptr;
  }
  under_way_ = std::move(next);
  if (live) return;
  (void)model_.wait();
  under_way_.reset();
}

}  // namespace chimere::engine
