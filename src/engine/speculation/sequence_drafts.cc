#include "engine/speculation/sequence_drafts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/layer_outputs.h"

namespace chimere::engine {

SequenceDrafts::SequenceDrafts(Speculation speculation, const sampling::SamplingParams& sampling,
                               std::span<DrafterEntry> entries, OutputConstraint* constraint,
                               SpeculationCounts& totals)
    : speculation_(speculation),
      greedy_(sampling.temperature == 0),
      entries_(entries),
      constraint_(constraint),
      sources_(entries.size()),
      totals_(totals) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!speculation.uses(i) || entries[i].drafter == nullptr) continue;
    sources_[i].state = entries[i].drafter->start(sampling);
    if (entries[i].type->rates_per_request) {
      sources_[i].acceptance = Acceptance::like(statistics(i).acceptance(greedy_));
    }
  }
}

const Acceptance& SequenceDrafts::acceptance(size_t drafter) const {
  const std::optional<Acceptance>& own = sources_[drafter].acceptance;
  return own ? *own : statistics(drafter).acceptance(greedy_);
}

void SequenceDrafts::record(size_t drafter, size_t evidence, bool accepted) {
  statistics(drafter).acceptance(greedy_).record(evidence, accepted);
  std::optional<Acceptance>& own = sources_[drafter].acceptance;
  if (own) own->record(evidence, accepted);
}

/// Compares the shadow drafts of the previous round with the sampled token.
void SequenceDrafts::score_shadow_drafts(std::span<const int32_t> history) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Draft shadow = std::exchange(sources_[i].shadow, {});
    if (shadow.token < 0 || shadow_draft_at_ >= history.size()) continue;
    record(i, shadow.evidence, shadow.token == history[shadow_draft_at_]);
  }
}

void SequenceDrafts::start_round() {
  chosen_ = {};
  chosen_from_ = kNone;
  probing_ = skipped_ = false;
  certain_ = 0;
}

void SequenceDrafts::begin_round(std::span<const int32_t> history, int32_t most) {
  score_shadow_drafts(history);
  for (size_t i = 0; i < entries_.size(); ++i) statistics(i).policy.begin_round();
  start_round();
  most_ = most;
  shadow_draft_at_ = history.size();
}

void SequenceDrafts::skip_round() {
  start_round();
  skipped_ = true;
  idle_rounds_ = kIdleAfter;
}

bool SequenceDrafts::use_expected(int32_t most, double row_cost) {
  if (constraint_ == nullptr || !speculation_.certain || most < 1 || row_cost >= 1) return false;
  certain_ = constraint_->certain_tokens();
  if (followed_ <= row_cost) most = std::min(most, certain_);
  if (most < 1) return false;
  const std::span<const int32_t> expected = constraint_->expected(most);
  chosen_.tokens.assign(expected.begin(), expected.end());
  return !expected.empty();
}

std::optional<ProposalBuilder> SequenceDrafts::builder(size_t drafter, const DraftCosts& costs) {
  if (sources_[drafter].state == nullptr || most_ < 1) return {};
  int32_t most = most_;
  if (computes(drafter)) {
    if (chosen_from_ != kNone && computes(chosen_from_)) return {};
    DraftPolicy& policy = statistics(drafter).policy;
    if (!chosen_.tokens.empty() && chosen_.gain >= policy.mean() * costs.token()) return {};
    if (!speculation_.always) {
      const DraftPolicy::DraftDecision decision =
          policy.decide(costs.gain_possible(most_of_pass(drafter)));
      if (decision == DraftPolicy::DraftDecision::kNone) return {};
      probing_ = decision == DraftPolicy::DraftDecision::kProbe;
      if (probing_) most = 1;
    }
    before_ = std::exchange(chosen_, {});
    before_from_ = std::exchange(chosen_from_, drafter);
    costs_ = costs;
  }
  // A lookup that seems not to pay is verified now and then: its cost may have been measured badly.
  const bool measures = probing_ || (costs.outdated && !computes(drafter));
  const int32_t least = speculation_.all ? most : (speculation_.always || measures ? 1 : 0);
  return ProposalBuilder(acceptance(drafter), costs, most, least, constraint_);
}

void SequenceDrafts::offer(size_t drafter, Proposal proposal) {
  counts_.requested += proposal.passes;
  totals_.requested += proposal.passes;
  if (sources_[drafter].state->short_of_memory && counts_.memory_shortages == 0) {
    counts_.memory_shortages = 1;
    ++totals_.memory_shortages;
  }
  if (!computes(drafter)) {
    sources_[drafter].shadow = proposal.first;
    const bool better =
        !proposal.tokens.empty() && (chosen_.tokens.empty() || proposal.gain > chosen_.gain);
    if (!better) return;
  }
  chosen_ = std::move(proposal);
  chosen_from_ = drafter;
  if (!computes(drafter) || chosen_.passes > 0) return;
  // It could not draft: what was chosen before it stays.
  chosen_ = std::move(before_);
  chosen_from_ = before_from_;
  probing_ = false;
}

void SequenceDrafts::count_drafts(int32_t drafted, int32_t accepted) {
  if (drafted == 0) return;
  const std::string_view source =
      chosen_from_ == kNone ? kConstraintSource : entries_[chosen_from_].type->name;
  counts_.add(source, drafted, accepted);
  totals_.add(source, drafted, accepted);
}

void SequenceDrafts::end(int32_t accepted, bool generation_ended) {
  const auto n = static_cast<int32_t>(chosen_.tokens.size());
  idle_rounds_ = n == 0 && chosen_.passes == 0 ? idle_rounds_ + 1 : 0;
  count_drafts(n, accepted);
  if (const int32_t open = n - certain_; chosen_from_ == kNone && open > 0) {
    constexpr double kWeight = 0.25;
    followed_ += kWeight * (std::max(0, accepted - certain_) / double(open) - followed_);
  }
  if (chosen_from_ == kNone || probing_) return;
  if (n > 0) sources_[chosen_from_].shadow = {};
  // Drafts after the end of a generation are not evidence.
  const int32_t seen = std::min(n, accepted + (generation_ended ? 0 : 1));
  for (int32_t i = 0; i < seen; ++i) {
    record(chosen_from_, chosen_.evidence[static_cast<size_t>(i)], i < accepted);
  }
  if (computes(chosen_from_) && !generation_ended && costs_.token() > 0) {
    const double spent = costs_.rows(n) + chosen_.passes * costs_.draft();
    statistics(chosen_from_).policy.record_gain(accepted - spent / costs_.token());
  }
}

int32_t SequenceDrafts::most_of_pass(size_t drafter) const {
  return std::min(most_, entries_[drafter].drafter->most_of_pass());
}

bool SequenceDrafts::follows(size_t drafter, bool prompt) const {
  if (sources_[drafter].state == nullptr) return false;
  if (speculation_.always) return true;
  const DraftPolicy& policy = statistics(drafter).policy;
  return prompt ? policy.reads_prompts() : !skipped_ && policy.reads_rows();
}

void SequenceDrafts::add_needs(model::StepPlan& plan, bool prompt) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const bool reads_kv = entries_[i].type->reads_draft_kv;
    if (reads_kv && follows(i, prompt)) plan.update_draft_kv = true;
    if (observes(i, prompt)) add_taps(entries_[i].drafter->taps(), plan);
  }
}

std::shared_ptr<const state::Checkpoint> SequenceDrafts::context_rows(int64_t position) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].state == nullptr) continue;
    auto rows =
        entries_[i].drafter->context_rows(*sources_[i].state, static_cast<int32_t>(position));
    if (rows) return std::make_shared<const state::Checkpoint>(*std::move(rows));
  }
  return nullptr;
}

void SequenceDrafts::resume(const state::Checkpoint& rows, int64_t position) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].state == nullptr) continue;
    entries_[i].drafter->resume(*sources_[i].state, rows, static_cast<int32_t>(position));
  }
}

bool SequenceDrafts::observes(size_t drafter, bool prompt) const {
  const std::unique_ptr<Drafter>& source = entries_[drafter].drafter;
  return source != nullptr && !source->taps().empty() && follows(drafter, prompt);
}

}  // namespace chimere::engine
