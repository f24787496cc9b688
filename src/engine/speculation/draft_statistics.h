// The cost of drafts, their acceptance rates, and the decision whether a drafter is used.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/speculation/cost_curve.h"

namespace chimere::engine {

/// Acceptance rates by kind of evidence, with exponentially decaying weights.
class Acceptance {
 public:
  /// Starts as if a few drafts of each kind had been accepted at these rates.
  explicit Acceptance(const std::vector<double>& expected);
  /// Starts as if a few drafts of each kind had been accepted at the rates of `other`.
  static Acceptance like(const Acceptance& other);

  /// Records a draft of this kind that was verified: all drafts before it had been accepted.
  void record(size_t evidence, bool accepted);
  double probability(size_t evidence) const;

 private:
  struct Kind {
    double accepted = 0;
    double trials = 0;
  };
  std::vector<Kind> kinds_;
};

/// Decides whether a drafter that computes pays: keeps the balance of tokens gained and time spent.
/// Single probing drafts first measure the cost; only if a gain is possible does a trial
/// follow, before which the MTP head's KV cache is updated with the generations' rows. An engine
/// begins with that at once, since the loss is a few tokens, once; later probes and trials are
/// spread over many rounds. A round is one sequence's. After each failed probe or trial the next
/// one comes four times later, so that drafting that does not pay costs next to nothing.
class DraftPolicy {
 public:
  /// Mean gain of a round, in tokens, below which drafting stops, if it is below by more than its
  /// standard error: updating the MTP head's KV cache with every row costs a little in each round.
  static constexpr double kMinGain = 0.08;

  enum class DraftDecision {
    kNone,
    kProbe,  ///< one draft to measure its cost; not evidence of quality
    kDraft,
  };
  /// Called in every round of every request: other drafters or constraints may put off the first
  /// decision, but not for long.
  void begin_round();
  /// Called at each round of a request that might draft. `gain_expected`: drafts may gain kMinGain
  /// at the known costs.
  DraftDecision decide(bool gain_expected);
  /// Records the gain of a kDraft round (negative: a loss), in units of the time of a token without
  /// drafts.
  void record_gain(double gain);
  /// Mean gain of a round.
  double mean() const { return mean_; }
  /// Drafting now or soon: the drafter reads decode rows (the MTP head's KV cache, taps).
  bool reads_rows() const { return phase_ != Phase::kProbing || beginning_; }
  /// It reads prompt rows too, which costs more: only after a successful trial.
  bool reads_prompts() const { return phase_ == Phase::kDrafting && trial_ >= kTrialRounds; }

 private:
  enum class Phase { kProbing, kWarmup, kDrafting };
  void stop_drafting();

  static constexpr int32_t kTrialRounds = 12;
  /// Rounds from one probe to the next, which takes less than one.
  static constexpr int32_t kBetweenFirstProbes = 4;
  static constexpr int32_t kBetweenProbes = 64;

  Phase phase_ = Phase::kProbing;
  double mean_ = 0;
  double variance_ = 0;                 ///< of the gains
  bool beginning_ = true;               ///< the engine's first probes, trial and drafting
  int32_t rounds_ = 0;                  ///< while beginning without a decision
  int32_t probes_ = 0;                  ///< since drafting began or stopped
  int32_t trial_ = 0;                   ///< rounds recorded since drafting began
  int32_t idle_ = kBetweenFirstProbes;  ///< rounds until the next probe or trial
  int32_t next_idle_ = 512;
};

/// What drafts cost a sequence at the moment, in seconds.
struct DraftCosts {
  const CostCurve* steps = nullptr;   ///< decode steps
  const CostCurve* drafts = nullptr;  ///< passes of the drafter
  int32_t sequences = 1;              ///< decoding sequences
  bool outdated = false;              ///< rows with drafts were measured long ago

  /// Seconds per token without drafts; 0: unknown.
  double token() const { return steps->seconds(sequences) / sequences; }
  /// Seconds for `n` additional rows of this request, plus a margin of 10% against measurement
  /// noise.
  double rows(int32_t n) const { return 1.1 * n * steps->slope(); }
  /// Seconds for one pass of the drafter.
  double draft() const { return drafts->seconds(sequences) / sequences; }
  /// Whether at most `most` drafts of one pass, each with an optimistic acceptance rate, would gain
  /// DraftPolicy::kMinGain.
  bool gain_possible(int32_t most) const;
};

/// What the engine has measured about one drafter.
struct DrafterStatistics {
  Acceptance greedy;       ///< of generations with temperature 0
  Acceptance sampled;      ///< of the others
  CostCurve passes{0.25};  ///< one forward pass of the drafter, by sequences
  DraftPolicy policy = {};

  Acceptance& acceptance(bool of_greedy) { return of_greedy ? greedy : sampled; }
};

/// Kinds of evidence for drafts with a probability: in tenths.
inline constexpr size_t kProbabilityClasses = 10;
size_t probability_class(double probability);
/// Their acceptance rates if the probabilities are right, scaled by `trust`.
std::vector<double> probability_rates(double trust);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFT_STATISTICS_H_
