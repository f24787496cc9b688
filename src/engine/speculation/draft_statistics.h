// What an engine has learned of drafts: what they cost here, and how often they are right.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/speculation/cost_curve.h"

namespace chimere::engine {

/// How often drafts were accepted, by the kind of evidence for them. Older trials count less.
class Acceptance {
 public:
  /// Starts as if a few drafts of each kind had been accepted at these rates.
  explicit Acceptance(const std::vector<double>& expected);
  /// Starts as if a few drafts of each kind had been accepted at `other`'s rates.
  static Acceptance like(const Acceptance& other);

  /// A draft of this kind was looked at: all drafts before it had been accepted.
  void learn(size_t evidence, bool accepted);
  double probability(size_t evidence) const;

 private:
  struct Kind {
    double accepted = 0;
    double trials = 0;
  };
  std::vector<Kind> kinds_;
};

/// Whether drafts by the model earn their keep: the balance of tokens saved and time spent, and
/// when to try again if it is negative. What they cost is probed first, by single drafts; only
/// where that leaves hope is there a trial, before which the block is shown the generations' rows.
/// Each time that there is no hope, or that a trial fails, the next one is four times as far away,
/// so that what does not pay costs next to nothing.
class DraftPolicy {
 public:
  /// Mean gain of a round, in tokens, below which drafting stops: feeding the block with every row
  /// costs a little in all rounds.
  static constexpr double kMinGain = 0.08;

  enum class DraftDecision {
    kNone,
    kProbe,  ///< one draft, to see what it costs; it says nothing of how good they are
    kDraft,
  };
  /// Another round of a request that might draft begins. `hope`: as far as prices are known, drafts
  /// may gain kMinGain.
  DraftDecision draws(bool gain_expected);
  /// A round that kDraft asked for gained so much (lost, if negative), in the time of a token
  /// without drafts.
  void settle(double gain);
  /// Mean gain of a round.
  double mean() const { return mean_; }
  /// Drafting, or about to: the block is to see what it will continue from.
  bool updates_draft_kv() const { return phase_ != Phase::kProbing; }
  /// The same for prompts, which cost more: once a trial has gone well.
  bool updates_draft_kv_of_prompts() const {
    return phase_ == Phase::kDrafting && trial_ >= kTrialRounds;
  }

 private:
  enum class Phase { kProbing, kWarmup, kDrafting };
  void give_up();

  static constexpr int32_t kTrialRounds = 12;
  static constexpr int32_t kBetweenProbes = 64;  ///< rounds: a probe takes less than one of these

  Phase phase_ = Phase::kProbing;
  double mean_ = 0;
  int32_t probes_ = 0;             ///< since drafting began or was given up
  int32_t trial_ = 0;              ///< rounds settled since drafting began
  int32_t idle_ = kBetweenProbes;  ///< rounds until something is tried
  int32_t next_idle_ = 512;
};

/// How often drafts of each origin were accepted; see Speculator for the kinds of evidence.
struct Acceptances {
  Acceptance by_model;
  Acceptance by_lookup;
  Acceptance by_table;
};

struct DraftStatistics {
  CostCurve steps{0.25};   ///< decode steps, by rows
  CostCurve drafts{0.25};  ///< one depth of Model::draft(), by sequences
  Acceptances greedy;      ///< of generations that take the most likely token
  Acceptances sampled;     ///< of the others
  DraftPolicy balance;
  int32_t since_plain = 0;  ///< steps since the last one without drafts

  DraftStatistics();
};

/// What drafts cost a request at the moment.
struct DraftCosts {
  const CostCurve* steps = nullptr;
  const CostCurve* drafts = nullptr;
  int32_t sequences = 1;  ///< that are decoding

  /// Seconds that a token takes without drafts; 0 while nobody knows.
  double token() const { return steps->seconds(sequences) / sequences; }
  /// Seconds that so many further rows of this request take, and a tenth more: a draft that is just
  /// worth it as measured may not be.
  double rows(int32_t n) const { return 1.1 * n * steps->slope(); }
  /// Seconds that one draft by the model takes.
  double draft() const { return drafts->seconds(sequences) / sequences; }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_
