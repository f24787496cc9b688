// The drafts of one request: where they come from, how many are worth verifying, what became of
// them.
#ifndef CHIMERE_ENGINE_SPECULATION_SPECULATOR_H_
#define CHIMERE_ENGINE_SPECULATION_SPECULATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculation/draft_statistics.h"
#include "engine/speculation/speculation.h"
#include "engine/speculation/suffix_automaton.h"
#include "sampling/sampler.h"

namespace chimere::engine {

/// Rates that Acceptance starts from, all times `trust`. For drafts by the model: by the
/// probability that the block gives to its draft, in tenths; first the first draft of a chain, then
/// the others. For lookups by the length of the match, for tables by the probability that they give
/// to the token, in tenths.
std::vector<double> expected_of_model(double trust);
std::vector<double> expected_of_lookup(double trust);
std::vector<double> expected_of_table(double trust);

/// Lookups and tables are marked in every round, whether their drafts are verified or not: what
/// they would have said is compared with the token that came, which costs nothing.
///
/// Of each generation. A round is one step: begin(), then choose() for each draft by the model if
/// it asks for them, then drafts() are verified behind the newest token, then end().
class Speculator {
 public:
  /// `lessons` must outlive it. The sampling parameters are those of the generation: drafts are
  /// drawn as its tokens are, with the same random numbers, so that likely tokens meet.
  Speculator(Speculation mode, const sampling::SamplingParams& sampling,
             DraftStatistics& statistics);

  /// Decides on the drafts behind `history`, which has grown at its end since the last call.
  /// `most`: rows there is room for. `model_drafts`: the model can draft. True if choose() is to be
  /// called.
  bool begin(std::span<const int32_t> history, int32_t most, const DraftCosts& costs,
             bool model_drafts);
  /// A choice of Model::draft(): the next draft, or -1 for no further one.
  int32_t choose(std::span<const float> logits);
  std::span<const int32_t> drafts() const { return drafts_; }
  /// Gives them up: there was no memory for their rows.
  void drop() { drafts_.clear(); }
  /// The first `accepted` drafts were the tokens; the next one, if the generation went on, was not.
  void end(int32_t accepted, bool generation_ended);
  /// It has asked for nothing and proposed nothing for some time, nor does it in this round: rounds
  /// may go by without begin().
  bool idle() const {
    return mode_ == Speculation::kAuto && quiet_rounds_ >= kIdleAfter && drafts_.empty();
  }
  /// It proposes nothing in this round, in the place of begin().
  void skip_round();
  static constexpr int32_t kIdleAfter = 16;

  /// Whether the model's block should see this request's rows, so that it can draft for it; of its
  /// prompt, and of its generation.
  bool updates_draft_kv_of_prompt() const {
    return mode_ == Speculation::kMtp || (mode_ == Speculation::kAuto &&
                                          draft_statistics_->balance.updates_draft_kv_of_prompts());
  }
  bool updates_draft_kv_of_decode() const {
    return mode_ == Speculation::kMtp || (mode_ == Speculation::kAuto && !skipped_ &&
                                          draft_statistics_->balance.updates_draft_kv());
  }
  const SpeculationCounts& counts() const { return counts_; }

 private:
  /// Drafts of one origin, and what they are expected to gain, in seconds.
  struct Proposal {
    std::vector<int32_t> drafts;
    std::vector<size_t> evidence;
    double gain = 0;
  };
  /// What would have been the first draft, and has not been verified.
  struct ShadowDraft {
    int32_t token = -1;  ///< -1: none
    size_t evidence = 0;
  };
  void score_shadow_drafts(std::span<const int32_t> history);
  bool gain_expected() const;
  Proposal look_up(std::span<const int32_t> history, int32_t most);
  Proposal ask_tables(std::span<const int32_t> history, int32_t most);
  Acceptances& acceptances_of_kind() const;
  void start_round();
  bool worth_a_row(double probability) const;

  Speculation mode_;
  DraftStatistics* draft_statistics_;
  SuffixAutomaton seen_;
  bool greedy_;
  Acceptance by_lookup_;                           ///< in this generation
  std::shared_ptr<sampling::AuxiliaryLm> tables_;  ///< may be empty
  sampling::Sampler sampler_;
  double inverse_temperature_;
  SpeculationCounts counts_;

  // Of this round.
  DraftCosts costs_;
  std::vector<int32_t> drafts_;
  std::vector<size_t> evidence_;  ///< of each draft
  enum class Origin { kModel, kLookup, kTable };
  Origin origin_ = Origin::kLookup;
  int32_t most_ = 0;
  uint64_t position_ = 0;  ///< of the next draft
  double chain_ = 1;       ///< probability that all drafts so far are accepted
  int32_t calls_ = 0;      ///< of choose()
  bool probing_ = false;   ///< the draft is for its price alone
  int32_t quiet_rounds_ = 0;
  bool skipped_ = false;        ///< this round
  size_t shadow_draft_at_ = 0;  ///< where the token of these lies
  ShadowDraft of_lookup_;
  ShadowDraft of_table_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATOR_H_
