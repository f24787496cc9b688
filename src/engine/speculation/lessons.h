// What an engine has learned of drafts: what they cost here, and how often they are right.
#ifndef CHIMERE_ENGINE_SPECULATION_LESSONS_H_
#define CHIMERE_ENGINE_SPECULATION_LESSONS_H_

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
/// when to try again if it is negative. Each time that a trial fails the next one is four times as
/// far away, so that what does not pay costs next to nothing.
class DraftBalance {
 public:
  /// Another round of a request that might draft begins; whether it should.
  bool draws();
  /// A round drafted and gained so much (lost, if negative), in the time of a token without drafts.
  void settle(double gain);
  /// Mean gain of a round.
  double mean() const { return mean_; }
  /// Neither drafting nor about to try: the block need not see what it will not go on from.
  bool resting() const { return rest_ > kFeedBefore; }

 private:
  static constexpr int32_t kFeedBefore = 48;  ///< rounds before a trial

  double mean_ = 0;
  int32_t trial_ = 0;   ///< rounds settled since drafting began again
  int32_t rest_ = 192;  ///< rounds left without drafts; short runs never try
  int32_t next_rest_ = 256;
};

/// How often drafts of each origin were accepted; see Speculator for the kinds of evidence.
struct Acceptances {
  Acceptance by_model;
  Acceptance by_lookup;
  Acceptance by_table;
};

struct Lessons {
  CostCurve steps{0.25};   ///< decode steps, by rows
  CostCurve drafts{0.25};  ///< one depth of Model::draft(), by sequences
  Acceptances greedy;      ///< of replies that take the most likely token
  Acceptances sampled;     ///< of the others
  DraftBalance balance;
  int32_t since_plain = 0;  ///< steps since the last one without drafts

  Lessons();
};

/// What drafts cost a request at the moment.
struct Prices {
  const CostCurve* steps = nullptr;
  const CostCurve* drafts = nullptr;
  int32_t sequences = 1;  ///< that are replying

  /// Seconds that a token takes without drafts; 0 while nobody knows.
  double token() const { return steps->seconds(sequences) / sequences; }
  /// Seconds that so many further rows of this request take, and a tenth more: a draft that is just
  /// worth it as measured may not be.
  double rows(int32_t n) const { return 1.1 * n * steps->slope(); }
  /// Seconds that one draft by the model takes.
  double draft() const { return drafts->seconds(sequences) / sequences; }
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_LESSONS_H_
