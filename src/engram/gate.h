// How much a table is trusted: a logistic function of its evidence and of the model's uncertainty,
// after the idea of NEST (Li et al. 2024, arXiv:2405.19325), learned from text.
#ifndef CHIMERE_ENGRAM_GATE_H_
#define CHIMERE_ENGRAM_GATE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/result.h"
#include "engram/table.h"

namespace chimere::engram {

/// What the model says of the next token.
struct ModelPrediction {
  std::span<const float> logits;
  double log_sum = 0;  ///< ln sum exp(logit)
  double entropy = 0;  ///< nats
  int32_t top = 0;     ///< the most likely token
  double log_p_max = 0;

  /// ln p; -infinity for tokens that do not exist or are masked.
  double log_probability(uint32_t token) const;
  /// The token exists and is not masked.
  bool has(uint32_t token) const {
    return token < logits.size() && logits[token] > -std::numeric_limits<float>::infinity();
  }
};

/// How well the table knew the text before the position: means over the last tokens.
struct Familiarity {
  double probability = 0;  ///< that the table gave to the token that came
  double order = 0;        ///< of the longest context that it knew, as a share of kMaxOrder
};

inline constexpr size_t kFeatures = 12;
using Features = std::array<float, kFeatures>;

/// Of one context: all about 0 to 1 or a few nats. Feature 0 is logit(1 - back-off weight of
/// Kneser-Ney), 1 is constant; the others are named in gate.cc.
Features features_of(const Evidence& evidence, const ModelPrediction& prediction,
                     const Familiarity& before);

/// Interpolated Kneser-Ney's share for a context: sum of max(0, count - discount) / total over the
/// successors that take part. The rest is the back-off weight.
double kneser_ney_share(const Evidence& evidence);

/// One row of weights for each order; share = 1 / (1 + exp(-weights . features)).
class Gate {
 public:
  /// The default gate, fitted to texts of the kinds that tables are made from; see
  /// docs/experiments/engram-gate.md.
  static const Gate& learned();
  /// Interpolated Kneser-Ney itself: the share of feature 0 alone.
  static const Gate& kneser_ney();
  /// From a table file. Errors: kInvalidData (not kMaxOrder * kFeatures finite numbers).
  static Result<Gate> from_values(std::span<const float> values);

  std::span<const float> values() const { return values_; }
  /// Of the context's distribution in the mixture with what shorter contexts and the model say.
  double share(int order, const Features& features) const;

 private:
  friend class GateTrainer;
  explicit Gate(const std::array<float, kMaxOrder * kFeatures>& values) : values_(values) {}
  std::array<float, kMaxOrder * kFeatures> values_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_GATE_H_
