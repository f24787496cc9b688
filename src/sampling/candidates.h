// The tokens that remain in the sampler chain.
#ifndef CHIMERE_SAMPLING_CANDIDATES_H_
#define CHIMERE_SAMPLING_CANDIDATES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "sampling/gumbel_max.h"
#include "sampling/log_softmax.h"
#include "sampling/logit_adjustment.h"
#include "sampling/logit_scan.h"

namespace chimere::sampling {

/// As long as many tokens remain they are a whole vocabulary of logits, with removed tokens at
/// -infinity or outside of a set, and every operation is a few passes over it; once at most
/// kSelected remain they are a sorted list. Probabilities are softmax(scale * logit) over the
/// remaining tokens, in double precision. No operation removes the last token.
class Candidates {
 public:
  static constexpr int64_t kSelected = 2048;
  /// This many of the most likely tokens are tried before a pass over all tokens.
  static constexpr int64_t kFew = 128;

  /// What is known about the tokens outside a list.
  struct Rest {
    float largest = -std::numeric_limits<float>::infinity();  ///< upper bound of their logits
    const kernels::LogSumExp* sums = nullptr;                 ///< of all tokens; nullptr: unknown
    /// Tokens of the list have changed since `sums` was computed: what has been added to and
    /// removed from sums->e.
    double added = 0;
    double removed = 0;

    /// Records the change of a logit.
    void change(float before, float after);
  };

  /// Starts with a whole vocabulary, scale 1. `logits` must outlive the use of the candidates.
  /// Errors: kInvalidData (NaN or +infinity, or all masked).
  Status assign(std::span<const float> logits);
  /// The same as assign(logits) and keep_set(set), in one pass over the logits. `set` must outlive
  /// the use of the candidates.
  Status assign(std::span<const float> logits, kernels::TokenMask set);
  /// Replaces the logits of the same tokens; masked tokens stay masked. `largest`: of the new
  /// logits.
  void replace(std::span<const float> logits, const Candidate& largest) {
    logits_ = logits;
    set_ = {};
    largest_ = largest;
    scanned_ = false;
  }
  /// Starts with some of the tokens, sorted, scale 1. Ids below 0 are unused places; a first one
  /// with +infinity reports logits that are NaN or +infinity. Errors: those of assign().
  Status assign_known(std::span<const Candidate> known, const Rest& rest);
  /// Adjusts the logits (not scale * logit) of remaining tokens; a token whose logit becomes
  /// -infinity is removed. Each id at most once. Errors: kInvalidData if no token remains.
  Status adjust(std::span<const LogitAdjustment> adjustments);
  /// Multiplies the scale.
  void scale(double factor) { scale_ *= factor; }
  double scale() const { return scale_; }

  /// An operation needed tokens outside the list: the result is invalid.
  bool undecided() const { return undecided_; }

  const Candidate& largest() const { return largest_; }
  int64_t count() const { return count_; }
  /// Of softmax(scale * logit) over the remaining tokens.
  Distribution distribution();
  /// Population standard deviation of the remaining logits.
  double deviation();

  /// Keeps the tokens of the set, which must outlive the use of the candidates. At most once after
  /// assign(). Errors: kInvalidData if none of them remains.
  Status keep_set(kernels::TokenMask set);
  /// Keeps the k largest. Decided for a partial list if the first k tokens are in it.
  void keep_largest(int64_t k);
  /// Keeps tokens with scale * logit >= floor.
  void keep_at_least(double floor);
  /// Keeps the most likely tokens until their probabilities reach the sum `share`.
  void keep_top_p(double share);
  /// Keeps the tokens whose negative log-likelihood is closest to the entropy (ties: the more
  /// likely) until their probabilities exceed the sum `share`.
  void keep_typical(double share);
  /// Removes all tokens with scale * logit >= floor except the least likely one of them.
  void drop_before_last_at_least(double floor);

  /// Draws one of the remaining tokens; see gumbel_max.h.
  Candidate draw(uint64_t seed, uint64_t position) const;

 private:
  /// A token in the order of keep_by().
  struct Keyed {
    double key = 0;
    Candidate token;

    friend bool operator<(const Keyed& a, const Keyed& b) {
      return a.key < b.key || (a.key == b.key && a.token < b.token);
    }
  };

  bool selected() const { return selected_; }
  double scaled(float logit) const { return logit * scale_; }
  double weight(float logit) const;
  /// Removes the tokens that `keep` rejects, and switches to a list if few remain.
  template <typename Keep>
  void filter(const Keep& keep);
  /// Keeps the tokens with the smallest key(scale * logit) >= 0 (ties: the more likely, then the
  /// lower id) until enough(sum of their weights, total).
  template <typename Key, typename Enough>
  void keep_by(const Key& key, const Enough& enough);
  void make_list();
  bool keep_top_p_of_few(double share);
  bool knows_largest(double floor);
  void start(std::span<const float> logits);
  /// Brings `scan_` up to date.
  void scan();
  Status rescan();
  /// Lists the tokens of a set of few.
  Status list_set(kernels::TokenMask set);
  /// Whether the set has at most kSelected tokens.
  bool is_small(kernels::TokenMask set) const;
  void sort_list();
  /// Logits that may be written, with those outside of `set_` at -infinity.
  std::span<float> mutable_logits();
  /// Logits with those outside of `set_` at -infinity.
  std::span<const float> masked_logits() { return set_.empty() ? logits_ : mutable_logits(); }
  /// The number of tokens of a whole vocabulary with scale * logit >= floor.
  int64_t count_at_least(double floor);

  std::span<const float> logits_;  ///< the caller's, or `owned_`
  /// The only tokens of `logits_` that remain; empty: all.
  kernels::TokenMask set_;
  std::vector<float> owned_;
  LogitScan scan_;
  bool scanned_ = false;  ///< `scan_` is that of `logits_`
  bool selected_ = false;
  std::optional<Rest> rest_;  ///< of a list from which nothing has been removed
  bool undecided_ = false;
  std::vector<Candidate> list_;  ///< sorted, unless `unsorted_`
  bool unsorted_ = false;
  std::vector<Candidate> few_;                ///< scratch
  std::vector<Keyed> sorted_;                 ///< scratch
  std::vector<LogitAdjustment> adjustments_;  ///< scratch
  std::vector<float> values_;                 ///< scratch
  Candidate largest_;
  int64_t count_ = 0;
  double scale_ = 1;
};

}  // namespace chimere::sampling

#endif  // CHIMERE_SAMPLING_CANDIDATES_H_
