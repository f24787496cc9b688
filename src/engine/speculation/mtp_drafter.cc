#include "engine/speculation/mtp_drafter.h"

#include <algorithm>
#include <cmath>

#include "sampling/sampler.h"

namespace chimere::engine {
namespace {

constexpr int32_t kLongestChain = 4;

/// By the probability that the MTP head gives to the draft: first for the first draft of a chain,
/// then for the later ones.
std::vector<double> mtp_rates(bool greedy) {
  std::vector<double> rates = probability_rates(greedy ? 0.9 : 0.8);
  for (size_t i = 0; i < kProbabilityClasses; ++i) rates.push_back(0.9 * rates[i]);
  return rates;
}

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

/// Drafts are drawn like the generation's tokens, with the same random numbers, which maximises the
/// chance that they are equal.
struct DraftSampler final : DrafterState {
  explicit DraftSampler(const sampling::SamplingParams& p)
      : sampler(draft_sampling(p)),
        scale(p.temperature > 0 ? 1.0 / static_cast<double>(p.temperature) : 1.0) {}

  sampling::Sampler sampler;
  double scale;  ///< 1 / temperature
};

/// Chains of drafts, one position a pass, for all sequences together.
class MtpDrafter final : public Drafter {
 public:
  explicit MtpDrafter(model::Model& model) : model_(model) {}

  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) override {
    return std::make_unique<DraftSampler>(sampling);
  }

  Status propose(std::span<const DraftTarget> targets) override {
    std::vector<model::DraftStart> starts;
    int32_t depth = 0;
    for (const DraftTarget& t : targets) {
      starts.push_back({t.sequence, t.history.back()});
      depth = std::max(depth, std::min(t.proposal->most(), kLongestChain));
    }
    return model_.draft(starts, depth, [&](size_t i, std::span<const float> logits) {
      return choose(targets[i], logits);
    });
  }

 private:
  /// The next draft of the chain, or -1 to end it.
  static int32_t choose(const DraftTarget& target, std::span<const float> logits) {
    ProposalBuilder& proposal = *target.proposal;
    auto& state = static_cast<DraftSampler&>(*target.state);
    proposal.count_pass();
    const int32_t before = proposal.size();
    const auto position = target.history.size() + static_cast<size_t>(before);
    const auto drawn = state.sampler.sample(logits, {}, position);
    if (!drawn.ok()) return -1;  // invalid logits: the model reports the error
    const size_t evidence = probability_class(probability(logits, drawn->id, state.scale));
    const size_t later = evidence + kProbabilityClasses;
    if (!proposal.add({drawn->id, before == 0 ? evidence : later})) return -1;
    // Assumes that the next draft has the same probability as this one.
    return proposal.size() < kLongestChain && proposal.worth_pass(later) ? drawn->id : -1;
  }

  model::Model& model_;
};

}  // namespace

constexpr DrafterType kMtpDrafter = {
    .name = "MTP head",
    .mode = "mtp",
    .computes = true,
    .reads_draft_kv = true,
    .expected_rates = mtp_rates,
    .create = [](const DrafterModels& models) -> std::unique_ptr<Drafter> {
      if (!models.target.has_drafts()) return nullptr;
      return std::make_unique<MtpDrafter>(models.target);
    },
};

}  // namespace chimere::engine
