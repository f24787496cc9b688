// The weight of a table in the mixture: a logistic function of the table's evidence and the model's
// uncertainty, similar to NEST (Li et al. 2024, arXiv:2405.19325), fitted to text.
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

/// The model's distribution over the next token.
struct ModelPrediction {
  std::span<const float> logits;
  double log_sum = 0;  ///< ln sum exp(logit)
  double entropy = 0;  ///< nats
  int32_t top = 0;     ///< the most likely token
  double log_p_max = 0;

  /// ln p; -infinity for tokens that are masked or outside the vocabulary.
  double log_probability(uint32_t token) const;
  /// Whether the token is in the vocabulary and not masked.
  bool has(uint32_t token) const {
    return token < logits.size() && logits[token] > -std::numeric_limits<float>::infinity();
  }
};

/// How well the table predicted the preceding text: means over the last tokens.
struct Familiarity {
  double probability = 0;  ///< that the table gave to the actual token
  double order = 0;        ///< of the longest known context, divided by kMaxOrder
};

inline constexpr size_t kFeatures = 12;
using Features = std::array<float, kFeatures>;

/// Features of one context, scaled to about 0 to 1 or a few nats. Feature 0 is logit(1 - Kneser-Ney
/// back-off weight), feature 1 is constant; gate.cc names the others.
Features features_of(const Evidence& evidence, const ModelPrediction& prediction,
                     const Familiarity& before);

/// The share of a context in interpolated Kneser-Ney: sum of max(0, count - discount) / total over
/// the successors in Evidence::top. The rest is the back-off weight.
double kneser_ney_share(const Evidence& evidence);

/// A row of weights per order; share = 1 / (1 + exp(-weights . features)).
class Gate {
 public:
  /// The default gate, fitted to texts of the kinds that tables are made from; see
  /// docs/experiments/engram-gate.md.
  static const Gate& learned();
  /// Interpolated Kneser-Ney: weight 1 for feature 0 alone.
  static const Gate& kneser_ney();
  /// Weights from a table file. Errors: kInvalidData (not kMaxOrder * kFeatures finite numbers).
  static Result<Gate> from_values(std::span<const float> values);

  std::span<const float> values() const { return values_; }
  /// The weight of the context's distribution against that of shorter contexts and the model.
  double share(int order, const Features& features) const;

 private:
  friend class GateTrainer;
  explicit Gate(const std::array<float, kMaxOrder * kFeatures>& values) : values_(values) {}
  std::array<float, kMaxOrder * kFeatures> values_;
};

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_GATE_H_
