// The drafts of one generation: which proposal is verified, and what came of it.
#ifndef CHIMERE_ENGINE_SPECULATION_SEQUENCE_DRAFTS_H_
#define CHIMERE_ENGINE_SPECULATION_SEQUENCE_DRAFTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/speculation/draft_statistics.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/proposal.h"
#include "engine/speculation/speculation.h"
#include "sampling/params.h"
#include "state/sequence_state.h"

namespace chimere::engine {

/// A drafter of an engine, with what was measured about it.
struct DrafterEntry {
  const DrafterType* type = nullptr;
  std::unique_ptr<Drafter> drafter;  ///< nullptr: not available for this model
  DrafterStatistics statistics;
};

/// A round is one step: begin_round(), then for each drafter that the generation wants a builder()
/// and offer(), then drafts() are verified after the newest token, then end().
///
/// Drafts of drafters that do not compute are scored even if they are not verified (shadow drafts):
/// the first one is compared with the sampled token, which costs nothing.
class SequenceDrafts {
 public:
  /// `entries` and `totals` must outlive it. `sampling`: the parameters of the generation.
  /// `constraint`: of its output; nullptr: none. `totals`: of all generations.
  SequenceDrafts(Speculation speculation, const sampling::SamplingParams& sampling,
                 std::span<DrafterEntry> entries, OutputConstraint* constraint,
                 SpeculationCounts& totals);

  /// Starts a round without drafts. `history` has only grown since the last call. `most`: rows
  /// available for drafts.
  void begin_round(std::span<const int32_t> history, int32_t most);
  /// Replaces begin_round() in a round in which the drafters are not called.
  void skip_round();
  /// After begin_round(): the tokens that the constraint leaves no choice about, at most so many,
  /// become the round's drafts. False if there are none. `row_cost`: of verifying a token, relative
  /// to the cost of a token without drafts. At 1 or more nothing is worth it; tokens that the
  /// generation may choose otherwise (white space) must have been accepted more often than that.
  bool use_expected(int32_t most, double row_cost);
  /// The builder to be filled by this drafter in this round; nothing if the drafter is not wanted.
  /// Drafters that do not compute come first.
  std::optional<ProposalBuilder> builder(size_t drafter, const DraftCosts& costs);
  /// The drafter's proposal: becomes the round's drafts if it is expected to gain more.
  void offer(size_t drafter, Proposal proposal);
  DrafterState* state(size_t drafter) const { return sources_[drafter].state.get(); }

  std::span<const int32_t> drafts() const { return chosen_.tokens; }
  /// Drops the drafts: there was no memory for their rows.
  void drop() { chosen_.tokens.clear(); }
  /// The first `accepted` drafts equalled the sampled tokens; the next one, if the generation
  /// continues, did not.
  void end(int32_t accepted, bool generation_ended);

  const Speculation& speculation() const { return speculation_; }
  /// Has proposed nothing for kIdleAfter rounds, nor in this one: rounds may pass without
  /// begin_round().
  bool idle() const {
    return !speculation_.always && idle_rounds_ >= kIdleAfter && chosen_.tokens.empty();
  }
  static constexpr int32_t kIdleAfter = 16;

  /// Adds to a step what the drafters read of this generation's rows: updates of the MTP head's KV
  /// cache, and taps.
  void add_needs(model::StepPlan& plan, bool prompt) const;
  /// Drafter::context_rows() of the drafter that has some; nullptr: none has.
  std::shared_ptr<const state::Checkpoint> context_rows(int64_t position) const;
  /// Drafter::resume(), before the first round.
  void resume(const state::Checkpoint& rows, int64_t position);
  /// Whether the drafter reads the outputs of layers for such rows of this generation.
  bool observes(size_t drafter, bool prompt) const;
  const SpeculationCounts& counts() const { return counts_; }

 private:
  /// What this generation has of a drafter.
  struct Source {
    std::unique_ptr<DrafterState> state;   ///< nullptr: the drafter does not serve the generation
    std::optional<Acceptance> acceptance;  ///< in this generation; see DrafterType
    Draft shadow;                          ///< first draft of this round, if it is not verified
  };
  /// Drafts that one forward pass of the drafter may give in this round.
  int32_t most_of_pass(size_t drafter) const;
  void score_shadow_drafts(std::span<const int32_t> history);
  void start_round();
  /// Whether the drafter may soon draft for this generation, so that it should see such rows.
  bool follows(size_t drafter, bool prompt) const;
  void record(size_t drafter, size_t evidence, bool accepted);
  void count_drafts(int32_t drafted, int32_t accepted);
  const Acceptance& acceptance(size_t drafter) const;
  DrafterStatistics& statistics(size_t drafter) const { return entries_[drafter].statistics; }
  bool computes(size_t drafter) const { return entries_[drafter].type->computes; }

  static constexpr size_t kNone = ~size_t{0};

  Speculation speculation_;
  bool greedy_;
  std::span<DrafterEntry> entries_;
  OutputConstraint* constraint_;
  std::vector<Source> sources_;  ///< one for each entry
  SpeculationCounts counts_;
  SpeculationCounts& totals_;
  int32_t idle_rounds_ = 0;
  double followed_ = 1;  ///< share of expected tokens that were accepted, but for certain ones

  // The current round.
  Proposal chosen_;
  size_t chosen_from_ = kNone;  ///< the drafter
  Proposal before_;             ///< chosen before a drafter that computes was asked
  size_t before_from_ = kNone;
  DraftCosts costs_;  ///< of that drafter
  int32_t most_ = 0;
  bool probing_ = false;  ///< the draft only measures its cost
  int32_t certain_ = 0;   ///< leading drafts that the constraint leaves no choice about
  bool skipped_ = false;
  size_t shadow_draft_at_ = 0;  ///< position of the token that the shadow drafts predict
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SEQUENCE_DRAFTS_H_
