#include "engine/speculation/lessons.h"

#include <algorithm>

#include "engine/speculation/speculator.h"

namespace chimere::engine {
namespace {

constexpr double kExpectedTrials = 4;
/// More trials than this are halved, so that the rate follows the text.
constexpr double kMostTrials = 128;

constexpr double kMemory = 1.0 / 32;
/// Probes before a decision, and rounds that the block is shown before a trial.
constexpr int32_t kProbes = 3;
constexpr int32_t kFeedingRounds = 48;
constexpr int32_t kShortestRest = 512;
constexpr int32_t kLongestRest = 32768;
/// A trial that is as bad as this ends early.
constexpr int32_t kEarlyRounds = 4;
constexpr double kHopeless = -0.15;

}  // namespace

Acceptance::Acceptance(const std::vector<double>& expected) {
  for (const double rate : expected) kinds_.push_back({rate * kExpectedTrials, kExpectedTrials});
}

Acceptance Acceptance::like(const Acceptance& other) {
  std::vector<double> rates;
  for (size_t i = 0; i < other.kinds_.size(); ++i) rates.push_back(other.probability(i));
  return Acceptance(rates);
}

void Acceptance::learn(size_t evidence, bool accepted) {
  Kind& k = kinds_[evidence];
  k.trials += 1;
  k.accepted += accepted ? 1 : 0;
  if (k.trials < kMostTrials) return;
  k.trials /= 2;
  k.accepted /= 2;
}

double Acceptance::probability(size_t evidence) const {
  return kinds_[evidence].accepted / kinds_[evidence].trials;
}

DraftBalance::Wish DraftBalance::draws(bool hope) {
  if (phase_ == Phase::kDrafting) return Wish::kDraft;
  if (--rest_ > 0) return Wish::kNone;
  if (phase_ == Phase::kFeeding) {
    phase_ = Phase::kDrafting;
    trial_ = 0;
    mean_ = 0;
    return Wish::kDraft;
  }
  if (probes_ < kProbes) {
    ++probes_;
    rest_ = kBetweenProbes;
    return Wish::kProbe;
  }
  if (hope) {
    phase_ = Phase::kFeeding;
    rest_ = kFeedingRounds;
  } else {
    give_up();
  }
  return Wish::kNone;
}

/// One probe more before the next decision.
void DraftBalance::give_up() {
  phase_ = Phase::kProbing;
  probes_ = kProbes - 1;
  rest_ = next_rest_;
  next_rest_ = std::min(4 * next_rest_, kLongestRest);
}

void DraftBalance::settle(double gain) {
  ++trial_;
  mean_ += (gain - mean_) * std::max(kMemory, 1.0 / trial_);
  const bool hopeless = trial_ >= kEarlyRounds && mean_ < kHopeless;
  if (trial_ < kTrialRounds && !hopeless) return;
  if (mean_ >= kLeastGain) {
    next_rest_ = kShortestRest;
  } else {
    give_up();
  }
}

Lessons::Lessons()
    : greedy{Acceptance(expected_of_model(0.9)), Acceptance(expected_of_lookup(0.6)),
             Acceptance(expected_of_table(0.6))},
      sampled{Acceptance(expected_of_model(0.8)), Acceptance(expected_of_lookup(0.5)),
              Acceptance(expected_of_table(0.5))} {}

}  // namespace chimere::engine
