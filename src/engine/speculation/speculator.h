// The drafts of one request: their source, how many are worth verifying, and their acceptance.
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

/// Initial acceptance rates, all scaled by `trust`. Model drafts: by the probability that the MTP
/// head gives to the draft, in tenths, for the first draft of a chain and then for the later ones.
/// Lookups: by the length of the match. Tables: by the probability that they give to the token, in
/// tenths.
std::vector<double> expected_of_model(double trust);
std::vector<double> expected_of_lookup(double trust);
std::vector<double> expected_of_table(double trust);

/// The drafter of one generation. A round is one step: begin(), then choose() for each model draft
/// if begin() asks for them, then drafts() are verified after the newest token, then end().
///
/// Lookup and table drafts that are not verified are scored all the same (shadow drafts): the first
/// one is compared with the sampled token, which costs nothing.
class Speculator {
 public:
  /// `statistics` must outlive it. `sampling`: the parameters of the generation. Drafts are drawn
  /// like its tokens, with the same random numbers, which maximises the chance that they are equal.
  Speculator(Speculation mode, const sampling::SamplingParams& sampling,
             DraftStatistics& statistics);

  /// Chooses the drafts after `history`, which has only grown since the last call. `most`: rows
  /// available. `model_drafts`: the model can draft. Returns true if choose() is to be called for
  /// model drafts.
  bool begin(std::span<const int32_t> history, int32_t most, const DraftCosts& costs,
             bool model_drafts);
  /// The callback of Model::draft(): the next draft, or -1 to stop.
  int32_t choose(std::span<const float> logits);
  std::span<const int32_t> drafts() const { return drafts_; }
  /// Drops the drafts: there was no memory for their rows.
  void drop() { drafts_.clear(); }
  /// The first `accepted` drafts equalled the sampled tokens; the next one, if the generation
  /// continues, did not.
  void end(int32_t accepted, bool generation_ended);
  /// Has proposed nothing for kIdleAfter rounds, nor in this one: rounds may pass without begin().
  bool idle() const {
    return mode_ == Speculation::kAuto && idle_rounds_ >= kIdleAfter && drafts_.empty();
  }
  /// Replaces begin() in a round without drafts.
  void skip_round();
  static constexpr int32_t kIdleAfter = 16;

  /// Whether the rows of this request's prompt (decode rows) update the MTP head's KV cache, so
  /// that the head can draft for the request.
  bool updates_draft_kv_of_prompt() const {
    return mode_ == Speculation::kMtp ||
           (mode_ == Speculation::kAuto && draft_statistics_->policy.updates_draft_kv_of_prompts());
  }
  bool updates_draft_kv_of_decode() const {
    return mode_ == Speculation::kMtp || (mode_ == Speculation::kAuto && !skipped_ &&
                                          draft_statistics_->policy.updates_draft_kv());
  }
  const SpeculationCounts& counts() const { return counts_; }

 private:
  /// Drafts of one origin and their expected gain in seconds.
  struct Proposal {
    std::vector<int32_t> drafts;
    std::vector<size_t> evidence;
    double gain = 0;
  };
  /// The first draft of a source, where it was not verified.
  struct ShadowDraft {
    int32_t token = -1;  ///< -1: none
    size_t evidence = 0;
  };
  void score_shadow_drafts(std::span<const int32_t> history);
  bool gain_expected() const;
  Proposal look_up(std::span<const int32_t> history, int32_t most);
  Proposal draft_from_tables(std::span<const int32_t> history, int32_t most);
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

  // The current round.
  DraftCosts costs_;
  std::vector<int32_t> drafts_;
  std::vector<size_t> evidence_;  ///< of each draft
  enum class Origin { kModel, kLookup, kTable };
  Origin origin_ = Origin::kLookup;
  int32_t most_ = 0;
  uint64_t position_ = 0;  ///< of the next draft
  double chain_ = 1;       ///< probability that all drafts so far are accepted
  int32_t calls_ = 0;      ///< of choose()
  bool probing_ = false;   ///< the draft only measures its cost
  int32_t idle_rounds_ = 0;
  bool skipped_ = false;        ///< this round
  size_t shadow_draft_at_ = 0;  ///< position of the token that the shadow drafts predict
  ShadowDraft of_lookup_;
  ShadowDraft of_table_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_SPECULATOR_H_
