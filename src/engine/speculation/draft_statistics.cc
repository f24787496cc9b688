#include "engine/speculation/draft_statistics.h"

#include <algorithm>
#include <cmath>

namespace chimere::engine {
namespace {

/// Weight of the initial rates, in trials.
constexpr double kExpectedTrials = 4;
/// Counts are halved at this many trials, so that the rate follows the text.
constexpr double kMaxTrials = 128;

constexpr double kMemory = 1.0 / 32;
/// Rounds whose plain mean is as certain as one with such a memory.
constexpr double kRemembered = 2 / kMemory - 1;
/// Probes before a decision, and rounds of updating the MTP head's KV cache before a trial.
constexpr int32_t kProbes = 3;
constexpr int32_t kWarmupRounds = 48;
/// Rounds after which an engine's first decision is like later ones.
constexpr int32_t kMostFirstRounds = 64;
constexpr int32_t kShortestIdle = 512;
constexpr int32_t kLongestIdle = 32768;
/// A trial may end after kEarlyRounds if its mean gain is lower than what is wanted by
/// kEarlyErrors standard errors; drafting ends if it is lower by one.
constexpr int32_t kEarlyRounds = 4;
constexpr double kEarlyErrors = 2;
/// Optimistic estimate of the acceptance rate of first drafts.
constexpr double kOptimisticAcceptance = 0.65;

}  // namespace

Acceptance::Acceptance(const std::vector<double>& expected) {
  for (const double rate : expected) kinds_.push_back({rate * kExpectedTrials, kExpectedTrials});
}

Acceptance Acceptance::like(const Acceptance& other) {
  std::vector<double> rates;
  for (size_t i = 0; i < other.kinds_.size(); ++i) rates.push_back(other.probability(i));
  return Acceptance(rates);
}

void Acceptance::record(size_t evidence, bool accepted) {
  Kind& k = kinds_[evidence];
  k.trials += 1;
  k.accepted += accepted ? 1 : 0;
  if (k.trials < kMaxTrials) return;
  k.trials /= 2;
  k.accepted /= 2;
}

double Acceptance::probability(size_t evidence) const {
  return kinds_[evidence].accepted / kinds_[evidence].trials;
}

void DraftPolicy::begin_round() {
  if (beginning_ && phase_ == Phase::kProbing) beginning_ = ++rounds_ <= kMostFirstRounds;
}

DraftPolicy::DraftDecision DraftPolicy::decide(bool gain_expected) {
  if (phase_ == Phase::kDrafting) return DraftDecision::kDraft;
  if (--idle_ > 0) return DraftDecision::kNone;
  if (phase_ == Phase::kWarmup) {
    phase_ = Phase::kDrafting;
    trial_ = 0;
    mean_ = variance_ = 0;
    return DraftDecision::kDraft;
  }
  if (probes_ < kProbes) {
    ++probes_;
    idle_ = beginning_ ? kBetweenFirstProbes : kBetweenProbes;
    return DraftDecision::kProbe;
  }
  if (gain_expected) {
    phase_ = Phase::kWarmup;
    idle_ = beginning_ ? 1 : kWarmupRounds;  // it has read rows from the engine's first one on
  } else {
    stop_drafting();
  }
  return DraftDecision::kNone;
}

/// The next decision needs one more probe.
void DraftPolicy::stop_drafting() {
  phase_ = Phase::kProbing;
  beginning_ = false;
  probes_ = kProbes - 1;
  idle_ = next_idle_;
  next_idle_ = std::min(4 * next_idle_, kLongestIdle);
}

void DraftPolicy::record_gain(double gain) {
  ++trial_;
  const double weight = std::max(kMemory, 1.0 / trial_);
  const double before = gain - mean_;
  mean_ += weight * before;
  variance_ += weight * (before * (gain - mean_) - variance_);
  // Requests that draft in any case end here too, and those of a step that has ended a trial.
  if (phase_ != Phase::kDrafting || trial_ < kEarlyRounds) return;
  const double error =
      std::sqrt(std::max(0.0, variance_) / (std::min<double>(trial_, kRemembered) - 1));
  const double errors = trial_ < kTrialRounds ? kEarlyErrors : 1;
  if (mean_ + errors * error < kMinGain) {
    stop_drafting();
  } else if (trial_ >= kTrialRounds && mean_ >= kMinGain) {
    next_idle_ = kShortestIdle;
  }
}

bool DraftCosts::gain_possible(int32_t most) const {
  double accepted = 0;
  double all_before = 1;
  for (int32_t n = 1; n <= most; ++n) {
    all_before *= kOptimisticAcceptance;
    accepted += all_before;
    if ((accepted - DraftPolicy::kMinGain) * token() > rows(n) + draft()) return true;
  }
  return false;
}

size_t probability_class(double probability) {
  if (!(probability > 0)) return 0;  // a drafter's rows may be NaN
  return std::min(kProbabilityClasses - 1,
                  static_cast<size_t>(probability * static_cast<double>(kProbabilityClasses)));
}

std::vector<double> probability_rates(double trust) {
  std::vector<double> rates;
  for (size_t i = 0; i < kProbabilityClasses; ++i) {
    rates.push_back(trust * (static_cast<double>(i) + 0.5) /
                    static_cast<double>(kProbabilityClasses));
  }
  return rates;
}

}  // namespace chimere::engine
