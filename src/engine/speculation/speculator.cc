#include "engine/speculation/speculator.h"

#include <algorithm>
#include <cmath>

namespace chimere::engine {
namespace {

constexpr size_t kTenths = 10;
constexpr int32_t kLongestChain = 4;
constexpr int32_t kLongestLookup = 15;
constexpr int32_t kMinMatch = 2;
/// Length of the text passed to the tables.
constexpr size_t kTableTail = 64;
/// Optimistic estimate of the acceptance rate of first drafts.
constexpr double kOptimisticAcceptance = 0.65;
/// Upper bounds of the match-length classes.
constexpr int32_t kMatchClasses[] = {2, 3, 4, 6, 9, 16, 32};

size_t match_class(int32_t length) {
  const auto* const it = std::ranges::lower_bound(kMatchClasses, length);
  return static_cast<size_t>(it - std::begin(kMatchClasses));
}

size_t tenth_of(double p) { return std::min(kTenths - 1, static_cast<size_t>(p * kTenths)); }

/// The generation's sampling parameters without everything that depends on the whole vocabulary or
/// the preceding text: drafts need not be exact.
sampling::SamplingParams draft_sampling(sampling::SamplingParams p) {
  p.logit_bias.clear();
  p.repeat_penalty = 1;
  p.frequency_penalty = p.presence_penalty = 0;
  p.dry = {};
  p.xtc_probability = 0;
  p.mirostat = 0;
  p.dynatemp_range = 0;
  p.logprobs = -1;
  p.auxiliary.reset();
  return p;
}

/// softmax(scale * logits) of one token, approximately.
double probability(std::span<const float> logits, int32_t token, double scale) {
  const float largest = *std::ranges::max_element(logits);
  // Tokens less than e^-12 times as likely as the first are negligible.
  const auto floor = static_cast<float>(largest - 12 / scale);
  double sum = 0;
  for (const float l : logits) {
    if (l > floor) sum += std::exp(scale * static_cast<double>(l - largest));
  }
  return std::exp(scale * static_cast<double>(logits[static_cast<size_t>(token)] - largest)) / sum;
}

}  // namespace

std::vector<double> expected_of_model(double trust) {
  std::vector<double> rates = expected_of_table(trust);
  for (size_t tenth = 0; tenth < kTenths; ++tenth) rates.push_back(0.9 * rates[tenth]);
  return rates;
}

std::vector<double> expected_of_lookup(double trust) {
  std::vector<double> rates = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9};
  for (double& r : rates) r *= trust;
  return rates;
}

std::vector<double> expected_of_table(double trust) {
  std::vector<double> rates;
  for (size_t tenth = 0; tenth < kTenths; ++tenth) {
    rates.push_back(trust * (static_cast<double>(tenth) + 0.5) / kTenths);
  }
  return rates;
}

Speculator::Speculator(Speculation mode, const sampling::SamplingParams& sampling,
                       DraftStatistics& statistics)
    : mode_(mode),
      draft_statistics_(&statistics),
      greedy_(sampling.temperature == 0),
      by_lookup_(Acceptance::like(acceptances_of_kind().by_lookup)),
      tables_(sampling.auxiliary),
      sampler_(draft_sampling(sampling)),
      inverse_temperature_(
          sampling.temperature > 0 ? 1.0 / static_cast<double>(sampling.temperature) : 1.0) {}

Acceptances& Speculator::acceptances_of_kind() const {
  return greedy_ ? draft_statistics_->greedy : draft_statistics_->sampled;
}

bool Speculator::worth_a_row(double p) const {
  const auto n = static_cast<int32_t>(drafts_.size());
  return p * costs_.token() > costs_.rows(n + 1) - costs_.rows(n);
}

/// Compares the shadow drafts of the previous round with the sampled token.
void Speculator::score_shadow_drafts(std::span<const int32_t> history) {
  if (shadow_draft_at_ < history.size()) {
    const int32_t token = history[shadow_draft_at_];
    if (of_lookup_.token >= 0) {
      const bool right = of_lookup_.token == token;
      by_lookup_.record(of_lookup_.evidence, right);
      acceptances_of_kind().by_lookup.record(of_lookup_.evidence, right);
    }
    if (of_table_.token >= 0) {
      acceptances_of_kind().by_table.record(of_table_.evidence, of_table_.token == token);
    }
  }
  of_lookup_ = of_table_ = {};
}

/// Whether a first draft with an optimistic acceptance rate is worth its cost.
bool Speculator::gain_expected() const {
  const double least = kOptimisticAcceptance - DraftPolicy::kMinGain;
  return least * costs_.token() > costs_.rows(1) + costs_.draft();
}

/// The continuation of the longest match, up to the length with the largest expected gain.
Speculator::Proposal Speculator::look_up(std::span<const int32_t> history, int32_t most) {
  Proposal out;
  for (auto i = static_cast<size_t>(seen_.size()); i < history.size(); ++i) seen_.push(history[i]);
  const int32_t length = seen_.match_length();
  if (length < kMinMatch) return out;
  double expected = 0;
  double all = 1;
  size_t keep = 0;
  const auto size = static_cast<int64_t>(history.size());
  for (int32_t i = 0; i < std::min(most, kLongestLookup) && seen_.match_next() + i < size; ++i) {
    out.drafts.push_back(history[static_cast<size_t>(seen_.match_next() + i)]);
    out.evidence.push_back(match_class(length + i));
    if (i == 0) of_lookup_ = {out.drafts.back(), out.evidence.back()};
    all *= by_lookup_.probability(out.evidence.back());
    expected += all * costs_.token();
    const double gain = expected - costs_.rows(i + 1);
    if (gain <= out.gain && (i > 0 || mode_ != Speculation::kNgram)) continue;
    out.gain = gain;
    keep = out.drafts.size();
  }
  out.drafts.resize(keep);
  out.evidence.resize(keep);
  return out;
}

/// The tables' most likely continuation, as long as each token pays.
Speculator::Proposal Speculator::draft_from_tables(std::span<const int32_t> history, int32_t most) {
  Proposal out;
  if (!tables_) return out;
  const auto end = history.last(std::min(history.size(), kTableTail));
  std::vector<int32_t> text(end.begin(), end.end());
  double all = 1;
  for (int32_t i = 0; i < std::min(most, kLongestLookup); ++i) {
    const sampling::TokenMass next = tables_->likeliest(text);
    if (next.id < 0) break;
    const size_t tenth = tenth_of(static_cast<double>(next.mass));
    if (i == 0) of_table_ = {next.id, tenth};
    all *= acceptances_of_kind().by_table.probability(tenth);
    const double gain = all * costs_.token() - (costs_.rows(i + 1) - costs_.rows(i));
    if (gain <= 0 && (i > 0 || mode_ != Speculation::kNgram)) break;
    out.gain += gain;
    out.drafts.push_back(next.id);
    out.evidence.push_back(tenth);
    text.push_back(next.id);
  }
  return out;
}

bool Speculator::begin(std::span<const int32_t> history, int32_t most, const DraftCosts& costs,
                       bool model_drafts) {
  score_shadow_drafts(history);
  start_round();
  costs_ = costs;
  most_ = most;
  chain_ = 1;
  position_ = shadow_draft_at_ = history.size();
  if (most < 1) return false;
  const bool forced = mode_ != Speculation::kAuto;
  double gain = 0;
  if (mode_ != Speculation::kMtp) {
    Proposal found = look_up(history, most);
    Proposal known = draft_from_tables(history, most);
    if (!known.drafts.empty() && (found.drafts.empty() || known.gain > found.gain)) {
      found = std::move(known);
      origin_ = Origin::kTable;
    }
    drafts_ = std::move(found.drafts);
    evidence_ = std::move(found.evidence);
    gain = found.gain;
  }
  if (!model_drafts || mode_ == Speculation::kNgram) return false;
  if (!drafts_.empty() && gain >= draft_statistics_->policy.mean() * costs.token()) return false;
  if (!forced) {
    const DraftPolicy::DraftDecision decision = draft_statistics_->policy.decide(gain_expected());
    if (decision == DraftPolicy::DraftDecision::kNone) return false;
    probing_ = decision == DraftPolicy::DraftDecision::kProbe;
  }
  drafts_.clear();
  evidence_.clear();
  origin_ = Origin::kModel;
  return true;
}

int32_t Speculator::choose(std::span<const float> logits) {
  ++calls_;
  ++counts_.requested;
  const auto drawn = sampler_.sample(logits, {}, position_);
  if (!drawn.ok()) return -1;  // invalid logits: the model reports the error
  const double p = probability(logits, drawn->id, inverse_temperature_);
  const size_t tenth = tenth_of(p);
  const size_t evidence = tenth + (drafts_.empty() ? 0 : kTenths);
  const Acceptance& learned = acceptances_of_kind().by_model;
  const double all = chain_ * learned.probability(evidence);
  const bool first_anyway = (mode_ == Speculation::kMtp || probing_) && drafts_.empty();
  if (!first_anyway && !worth_a_row(all)) return -1;
  chain_ = all;
  ++position_;
  drafts_.push_back(drawn->id);
  evidence_.push_back(evidence);
  const auto n = static_cast<int32_t>(drafts_.size());
  if (probing_ || n >= std::min(most_, kLongestChain)) return -1;
  // Assumes that the next draft has the same probability as this one.
  const double next = chain_ * learned.probability(tenth + kTenths);
  const double cost = costs_.rows(n + 1) - costs_.rows(n) + costs_.draft();
  return next * costs_.token() > cost ? drawn->id : -1;
}

void Speculator::start_round() {
  drafts_.clear();
  evidence_.clear();
  origin_ = Origin::kLookup;
  calls_ = 0;
  probing_ = skipped_ = false;
}

void Speculator::skip_round() {
  start_round();
  skipped_ = true;
  idle_rounds_ = kIdleAfter;
}

void Speculator::end(int32_t accepted, bool generation_ended) {
  const auto n = static_cast<int32_t>(drafts_.size());
  idle_rounds_ = n == 0 && calls_ == 0 ? idle_rounds_ + 1 : 0;
  counts_.drafted += n;
  counts_.accepted += accepted;
  if (!drafts_.empty() && origin_ == Origin::kLookup) of_lookup_ = {};
  if (!drafts_.empty() && origin_ == Origin::kTable) of_table_ = {};
  if (probing_) return;
  Acceptances& all = acceptances_of_kind();
  Acceptance& acceptance = origin_ == Origin::kModel    ? all.by_model
                           : origin_ == Origin::kLookup ? all.by_lookup
                                                        : all.by_table;
  // Drafts after the end of a generation are not evidence.
  const int32_t seen = std::min(n, accepted + (generation_ended ? 0 : 1));
  for (int32_t i = 0; i < seen; ++i) {
    const size_t evidence = evidence_[static_cast<size_t>(i)];
    acceptance.record(evidence, i < accepted);
    if (origin_ == Origin::kLookup) by_lookup_.record(evidence, i < accepted);
  }
  if (origin_ == Origin::kModel && !generation_ended && costs_.token() > 0) {
    const double spent = costs_.rows(n) + calls_ * costs_.draft();
    draft_statistics_->policy.record_gain(accepted - spent / costs_.token());
  }
}

}  // namespace chimere::engine
