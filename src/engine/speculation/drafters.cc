#include "engine/speculation/drafters.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "engine/layer_outputs.h"

namespace chimere::engine {
namespace {

/// Steps without drafts are the baseline for drafts: the first few, and one periodically.
constexpr int32_t kFirstPlainSteps = 4;
constexpr int32_t kMaxStepsSincePlain = 64;
/// With this many generations on a GPU, `auto` proposes no drafts: few of them have drafts in the
/// same step, so that the row counts vary and captured CUDA graphs cannot be reused.
constexpr int32_t kManyOnGpu = 8;
/// Steps with drafts before their cost is known.
constexpr int32_t kFirstDraftSteps = 5;
/// The cost of rows that verify drafts is measured again after so many steps without them.
constexpr int32_t kMaxStepsSinceDrafts = 256;
/// A row that verifies a draft of a single generation shares what the step reads with the other
/// row, so that it costs less than a token: at most this much. Larger shares of the tokens that may
/// differ must be accepted.
constexpr double kSingleRowCost = 0.5;
/// Margin against measurement noise.
constexpr double kMargin = 1.1;
/// In one of so many rounds the drafter that has gained least is asked first: nothing else would
/// try it.
constexpr uint32_t kOthersFirst = 16;
/// Tokens in one step that the constraint of a generation leaves no choice about.
constexpr int32_t kMaxExpected = 15;

}  // namespace

Drafters::Drafters(const DrafterModels& models, std::span<const DrafterType* const> types, Now now)
    : now_(std::move(now)), model_(models.target), draft_(models.draft) {
  for (const DrafterType* type : types) {
    entries_.push_back(
        {type,
         type->create(models),
         {Acceptance(type->expected_rates(true)), Acceptance(type->expected_rates(false))}});
    const DrafterEntry& entry = entries_.back();
    if (entry.drafter != nullptr && type->computes) computing_.push_back(entries_.size() - 1);
  }
}

std::unique_ptr<SequenceDrafts> Drafters::start(Speculation speculation,
                                                const sampling::SamplingParams& sampling,
                                                OutputConstraint* constraint) {
  if (speculation.drafters == 0 && constraint == nullptr) return nullptr;
  return std::make_unique<SequenceDrafts>(speculation, sampling, entries_, constraint, counts_);
}

void Drafters::propose(std::span<const DraftingSequence> sequences, int32_t decoding,
                       int64_t max_rows) {
  if (sequences.empty()) return;
  const bool many = model_.logits_on_gpu() && decoding >= kManyOnGpu;
  // Each verification row holds a row block until the sequence's next step.
  const state::StateStore& states = model_.states();
  int64_t free_rows = max_rows;
  if (states.bytes_per_pending_row() > 0) {
    free_rows = std::min(free_rows, states.free_pending_rows(decoding) - decoding);
  }
  const auto share = static_cast<int32_t>(std::max<int64_t>(0, free_rows / decoding));
  const bool plain =
      steps_.measured(decoding) < kFirstPlainSteps || since_plain_ >= kMaxStepsSincePlain;
  const bool baseline = plain && decoding > 1;
  const double row_cost = relative_row_cost(decoding);
  drafting_.clear();
  for (const DraftingSequence& s : sequences) {
    const int32_t possible = std::min(share, s.most);
    const bool none = plain && !s.drafts->speculation().all;
    s.drafts->begin_round(s.history, none ? 0 : possible);
    // These tokens must be computed in any case: on most machines they cost less together.
    const int32_t most = baseline ? 0 : std::min(possible, kMaxExpected);
    if (s.drafts->use_expected(most, row_cost)) continue;
    if (many && !s.drafts->speculation().always) {
      s.drafts->skip_round();
    } else if (!none && possible > 0 && s.drafts->speculation().drafters != 0) {
      drafting_.push_back(s);
    }
  }
  if (drafting_.empty()) return;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool now = entries_[i].drafter != nullptr && !entries_[i].type->computes;
    if (now) call(i, drafting_, decoding);
  }
  for (const size_t i : computing()) call(i, drafting_, decoding);
}

std::span<const size_t> Drafters::computing() {
  if (computing_.size() < 2) return computing_;
  std::ranges::stable_sort(computing_, std::ranges::greater(),
                           [this](size_t i) { return entries_[i].statistics.policy.mean(); });
  if (++rounds_ % kOthersFirst == 0) std::ranges::reverse(computing_);
  return computing_;
}

double Drafters::relative_row_cost(int32_t decoding) const {
  if (decoding == 1) return kSingleRowCost;
  const double token = steps_.seconds(decoding) / decoding;
  const bool measured = draft_rows_.measured(decoding) >= kFirstDraftSteps;
  if (token <= 0 || !measured || since_drafts_ >= kMaxStepsSinceDrafts) return 0;
  return kMargin * draft_rows_.seconds(decoding) / token;
}

void Drafters::call(size_t drafter, std::span<const DraftingSequence> sequences, int32_t decoding) {
  DrafterEntry& entry = entries_[drafter];
  const DraftCosts costs = {&steps_, &entry.statistics.passes, decoding,
                            since_drafts_ >= kMaxStepsSinceDrafts};
  std::vector<const DraftingSequence*> wanting;
  std::vector<ProposalBuilder> builders;
  for (const DraftingSequence& s : sequences) {
    std::optional<ProposalBuilder> builder = s.drafts->builder(drafter, costs);
    if (!builder) continue;
    wanting.push_back(&s);
    builders.push_back(*std::move(builder));
  }
  if (wanting.empty()) return;
  std::vector<DraftTarget> targets;
  for (size_t i = 0; i < wanting.size(); ++i) {
    const DraftingSequence& s = *wanting[i];
    targets.push_back({s.history, s.state, s.drafts->state(drafter), &builders[i]});
  }
  const int64_t first_steps_before = first_steps();
  const auto begun = now_();
  const Status proposed = entry.drafter->propose(targets);
  const std::chrono::duration<double> took = now_() - begun;
  int32_t passes = 0;
  for (size_t i = 0; i < wanting.size(); ++i) {
    Proposal proposal = builders[i].take();
    passes = std::max(passes, proposal.passes);
    wanting[i]->drafts->offer(drafter, std::move(proposal));
  }
  if (!proposed.ok() || passes == 0) return;
  CostCurve& costs_of_passes = entry.statistics.passes;
  const auto size = static_cast<int32_t>(targets.size());
  if (first_steps() != first_steps_before && costs_of_passes.leave_out(size)) return;
  costs_of_passes.add(size, took.count() / passes);
}

void Drafters::observe(const model::StepPlan& plan, std::span<const ConstMatrixView> taps,
                       std::span<const StepRows> sequences) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].drafter == nullptr || entries_[i].drafter->taps().empty()) continue;
    observe(i, plan, taps, sequences);
  }
}

void Drafters::observe(size_t drafter, const model::StepPlan& plan,
                       std::span<const ConstMatrixView> taps, std::span<const StepRows> sequences) {
  Drafter& source = *entries_[drafter].drafter;
  std::vector<ObservedRows> observed;
  std::vector<std::vector<ConstMatrixView>> outputs;
  for (const StepRows& s : sequences) {
    if (s.drafts == nullptr || s.tokens.empty() || !s.drafts->observes(drafter, s.prompt)) continue;
    std::vector<ConstMatrixView> of_rows =
        rows_of_taps(taps, plan, source.taps(), s.first_row, static_cast<int64_t>(s.tokens.size()));
    if (of_rows.empty()) return;  // decided after the step was planned
    // The views stay where they are when the list of outputs grows.
    outputs.push_back(std::move(of_rows));
    observed.push_back({s.drafts->state(drafter), s.tokens, s.position, outputs.back()});
  }
  if (!observed.empty()) source.observe(observed);
}

void Drafters::settle() {
  for (const DrafterEntry& entry : entries_) {
    if (entry.drafter != nullptr) entry.drafter->settle();
  }
}

int64_t Drafters::first_steps() const {
  return model_.first_steps() + (draft_ != nullptr ? draft_->first_steps() : 0);
}

void Drafters::record_step(int32_t rows, int32_t sequences, double seconds) {
  const bool drafts = rows > sequences;
  since_plain_ = drafts ? since_plain_ + 1 : 0;
  since_drafts_ = drafts ? 0 : since_drafts_ + 1;
  const int64_t before = std::exchange(first_steps_, first_steps());
  if (first_steps_ != before && steps_.leave_out(rows)) return;
  steps_.add(rows, seconds);
  if (!drafts || steps_.measured(sequences) == 0) return;
  const double further = std::max(0.0, seconds - steps_.seconds(sequences));
  draft_rows_.add(sequences, further / (rows - sequences));
}

}  // namespace chimere::engine
