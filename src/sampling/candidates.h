// The tokens that are left on the way through the sampler chain.
#ifndef CHIMERE_SAMPLING_CANDIDATES_H_
#define CHIMERE_SAMPLING_CANDIDATES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sampling/gumbel_max.h"
#include "sampling/log_softmax.h"
#include "sampling/logit_adjustment.h"
#include "sampling/logit_scan.h"

namespace chimere::sampling {

/// While many tokens are left they are a whole vocabulary of logits, those that were cut at
/// -infinity, and every operation is a few passes over it; as soon as at most kSelected are left
/// they are a sorted list. Probabilities are softmax(scale * logit) over what is left, in double
/// precision. Operations never cut the last token.
class Candidates {
 public:
  static constexpr int64_t kSelected = 2048;
  /// So many of the most likely tokens are looked at before all the others.
  static constexpr int64_t kFew = 128;

  /// What is known of the tokens that are not listed.
  struct Rest {
    float largest = -std::numeric_limits<float>::infinity();  ///< none has a larger logit
    const kernels::LogSumExp* sums = nullptr;                 ///< of all tokens; nullptr: not known
  };

  /// Everything, with scale 1. `logits` must live as long as the candidates are used. Errors:
  /// kInvalidData (not numbers, or all masked).
  Status assign(std::span<const float> logits);
  /// Other logits for the same tokens: those that were masked are. `largest`: of the new ones.
  void replace(std::span<const float> logits, const Candidate& largest) {
    logits_ = logits;
    largest_ = largest;
    scanned_ = false;
  }
  /// Some tokens alone, in order, with scale 1, of which there may be more. Ids below 0 are places
  /// that no token was left for; a first one with +infinity stands for logits that are not numbers.
  /// Errors: those of assign().
  Status assign_known(std::span<const Candidate> known, const Rest& rest);
  /// Changes the logits (not scale * logit) of tokens that are left; a token that goes to -infinity
  /// is cut. Each id at most once. Errors: kInvalidData if none is left.
  Status adjustment(std::span<const LogitAdjustment> adjustments);
  /// Multiplies the scale.
  void scale(double factor) { scale_ *= factor; }
  double scale() const { return scale_; }

  /// An operation needed tokens that are not known: what is left means nothing.
  bool undecided() const { return undecided_; }

  const Candidate& largest() const { return largest_; }
  int64_t count() const { return count_; }
  /// Of softmax(scale * logit).
  Distribution distribution() const;
  /// Population standard deviation of the logits.
  double deviation() const;

  /// Of known tokens, what keeps k is to know that the first k are among them.
  void keep_largest(int64_t k);
  /// Those with scale * logit >= floor.
  void keep_at_least(double floor);
  /// The most likely ones until their probabilities reach the sum `share`.
  void keep_top_p(double share);
  /// Those whose surprise is closest to the entropy (ties: the more likely) until their
  /// probabilities pass the sum `share`.
  void keep_typical(double share);
  /// Of those with scale * logit >= floor the last one alone, and all the others.
  void drop_before_last_at_least(double floor);

  /// One of them, as race.h draws it.
  Candidate draw(uint64_t seed, uint64_t position) const;

 private:
  bool selected() const { return selected_; }
  double scaled(float logit) const { return logit * scale_; }
  double weight(float logit) const;
  /// Cuts everything that `keep` refuses, and becomes a list if little is left.
  template <typename Keep>
  void filter(const Keep& keep);
  /// Keeps the tokens with the smallest key(scale * logit) >= 0 (ties: the more likely, then the
  /// lower id) until the sum of their weights is enough(sum, total).
  template <typename Key, typename Enough>
  void keep_by(const Key& key, const Enough& enough);
  void make_list();
  bool keep_top_p_of_few(double share);
  bool knows_largest(double floor);
  Status find_again();
  std::span<float> own();

  std::span<const float> logits_;  ///< of the caller, or `owned_`
  std::vector<float> owned_;
  LogitScan scan_;
  bool scanned_ = false;  ///< `scan_` is that of `logits_`
  bool selected_ = false;
  std::optional<Rest> rest_;  ///< of a list that nothing has been cut from
  bool undecided_ = false;
  std::vector<Candidate> list_;  ///< sorted
  Candidate largest_;
  int64_t count_ = 0;
  double scale_ = 1;
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_CANDIDATES_H_
