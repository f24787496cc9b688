#include "engine/speculation/mtp_drafter.h"

#include <algorithm>

#include "engine/speculation/draft_sampler.h"

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

struct MtpState final : DrafterState {
  explicit MtpState(const sampling::SamplingParams& sampling) : sampler(sampling) {}

  DraftSampler sampler;
};

/// Chains of drafts, one position a pass, for all sequences together.
class MtpDrafter final : public Drafter {
 public:
  explicit MtpDrafter(model::Model& model) : model_(model) {}

  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) override {
    return std::make_unique<MtpState>(sampling);
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
    auto& state = static_cast<MtpState&>(*target.state);
    proposal.count_pass();
    const int32_t before = proposal.size();
    const auto position = target.history.size() + static_cast<size_t>(before);
    const SampledDraft draft = state.sampler.sample(logits, position);
    if (draft.token < 0) return -1;
    const size_t evidence = probability_class(draft.probability);
    const size_t later = evidence + kProbabilityClasses;
    if (!proposal.add({draft.token, before == 0 ? evidence : later})) return -1;
    // Assumes that the next draft has the same probability as this one.
    return proposal.size() < kLongestChain && proposal.worth_pass(later) ? draft.token : -1;
  }

  model::Model& model_;
};

}  // namespace

constexpr DrafterType kMtpDrafter = {
    .name = "mtp",
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
