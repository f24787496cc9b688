#include "engine/speculation/speculator.h"

#include <algorithm>
#include <cmath>

namespace chimere::engine {
namespace {

constexpr size_t kTenths = 10;
constexpr int32_t kLongestChain = 4;
constexpr int32_t kLongestLookup = 15;
constexpr int32_t kLeastMatch = 2;
/// Lengths of matches that are not told apart end here.
constexpr int32_t kMatchClasses[] = {2, 3, 4, 6, 9, 16, 32};

size_t match_class(int32_t length) {
  const auto* const it = std::ranges::lower_bound(kMatchClasses, length);
  return static_cast<size_t>(it - std::begin(kMatchClasses));
}

std::vector<double> expected_of_lookup() { return {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9}; }

/// The reply's draw without what depends on the whole vocabulary or on the text so far: a draft
/// need not be right.
sampling::SamplingParams draft_sampling(sampling::SamplingParams p) {
  p.logit_bias.clear();
  p.repeat_penalty = 1;
  p.frequency_penalty = p.presence_penalty = 0;
  p.dry = {};
  p.xtc_probability = 0;
  p.mirostat = 0;
  p.dynatemp_range = 0;
  p.logprobs = -1;
  return p;
}

/// softmax(scale * logits) of one token, to a few digits.
double probability(std::span<const float> logits, int32_t token, double scale) {
  const float largest = *std::ranges::max_element(logits);
  // What is e^-12 times as likely as the first adds nothing that matters.
  const auto floor = static_cast<float>(largest - 12 / scale);
  double sum = 0;
  for (const float l : logits) {
    if (l > floor) sum += std::exp(scale * static_cast<double>(l - largest));
  }
  return std::exp(scale * static_cast<double>(logits[static_cast<size_t>(token)] - largest)) / sum;
}

}  // namespace

std::vector<double> expected_of_model() {
  std::vector<double> rates;
  for (const bool first : {true, false}) {
    for (size_t tenth = 0; tenth < kTenths; ++tenth) {
      const double p = (static_cast<double>(tenth) + 0.5) / kTenths;
      rates.push_back(first ? p : 0.9 * p);
    }
  }
  return rates;
}

Speculator::Speculator(Speculation mode, const sampling::SamplingParams& sampling, Lessons& lessons)
    : mode_(mode),
      lessons_(&lessons),
      by_lookup_(expected_of_lookup()),
      sampler_(draft_sampling(sampling)),
      inverse_temperature_(
          sampling.temperature > 0 ? 1.0 / static_cast<double>(sampling.temperature) : 1.0) {}

bool Speculator::worth_a_row(double p) const {
  const auto n = static_cast<int32_t>(drafts_.size());
  return p * prices_.token() > prices_.rows(n + 1) - prices_.rows(n);
}

/// Fills in what followed the longest match, as far as it pays; returns what that is expected to
/// gain, in seconds.
double Speculator::look_up(std::span<const int32_t> history, int32_t most) {
  for (auto i = static_cast<size_t>(seen_.size()); i < history.size(); ++i) seen_.push(history[i]);
  const int32_t length = seen_.match_length();
  if (length < kLeastMatch) return 0;
  double best = 0;
  double expected = 0;
  double all = 1;
  int32_t keep = 0;
  std::vector<int32_t> tokens;
  std::vector<size_t> evidence;
  const auto size = static_cast<int64_t>(history.size());
  for (int32_t i = 0; i < std::min(most, kLongestLookup) && seen_.match_next() + i < size; ++i) {
    tokens.push_back(history[static_cast<size_t>(seen_.match_next() + i)]);
    evidence.push_back(match_class(length + i));
    all *= by_lookup_.probability(evidence.back());
    expected += all * prices_.token();
    const double gain = expected - prices_.rows(i + 1);
    if (gain <= best && (i > 0 || mode_ != Speculation::kNgram)) continue;
    best = gain;
    keep = i + 1;
  }
  tokens.resize(static_cast<size_t>(keep));
  evidence.resize(static_cast<size_t>(keep));
  drafts_ = std::move(tokens);
  evidence_ = std::move(evidence);
  return best;
}

bool Speculator::begin(std::span<const int32_t> history, int32_t most, const Prices& prices,
                       bool model_drafts) {
  drafts_.clear();
  evidence_.clear();
  prices_ = prices;
  most_ = most;
  by_model_ = false;
  calls_ = 0;
  chain_ = 1;
  position_ = history.size();
  if (most < 1) return false;
  const bool forced = mode_ != Speculation::kAuto;
  double gain = 0;
  if (mode_ != Speculation::kMtp) gain = look_up(history, most);
  if (!model_drafts || mode_ == Speculation::kNgram) return false;
  if (!drafts_.empty() && gain >= lessons_->balance.mean() * prices.token()) return false;
  if (!forced && !lessons_->balance.draws()) return false;
  drafts_.clear();
  evidence_.clear();
  by_model_ = true;
  return true;
}

int32_t Speculator::choose(std::span<const float> logits) {
  ++calls_;
  const auto drawn = sampler_.sample(logits, {}, position_);
  if (!drawn.ok()) return -1;  // logits that are no numbers: the model will say so
  const double p = probability(logits, drawn->id, inverse_temperature_);
  const auto tenth = std::min(kTenths - 1, static_cast<size_t>(p * kTenths));
  const size_t evidence = tenth + (drafts_.empty() ? 0 : kTenths);
  const double all = chain_ * lessons_->by_model.probability(evidence);
  const bool first_anyway = mode_ == Speculation::kMtp && drafts_.empty();
  if (!first_anyway && !worth_a_row(all)) return -1;
  chain_ = all;
  ++position_;
  drafts_.push_back(drawn->id);
  evidence_.push_back(evidence);
  const auto n = static_cast<int32_t>(drafts_.size());
  if (n >= std::min(most_, kLongestChain)) return -1;
  // The next draft is taken to be as sure as this one.
  const double next = chain_ * lessons_->by_model.probability(tenth + kTenths);
  const double cost = prices_.rows(n + 1) - prices_.rows(n) + prices_.draft();
  return next * prices_.token() > cost ? drawn->id : -1;
}

void Speculator::end(int32_t accepted, bool reply_ended) {
  const auto n = static_cast<int32_t>(drafts_.size());
  counts_.drafted += n;
  counts_.accepted += accepted;
  Acceptance& acceptance = by_model_ ? lessons_->by_model : by_lookup_;
  // A reply that ends says nothing of the drafts behind its end.
  const int32_t seen = std::min(n, accepted + (reply_ended ? 0 : 1));
  for (int32_t i = 0; i < seen; ++i) {
    acceptance.learn(evidence_[static_cast<size_t>(i)], i < accepted);
  }
  if (by_model_ && !reply_ended && prices_.token() > 0) {
    const double spent = prices_.rows(n) + calls_ * prices_.draft();
    lessons_->balance.settle(accepted - spent / prices_.token());
  }
}

}  // namespace chimere::engine
