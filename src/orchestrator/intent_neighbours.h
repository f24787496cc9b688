// The nearest labelled examples of a request, by an embedder, beside what its words say.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_NEIGHBOURS_H_
#define CHIMERE_ORCHESTRATOR_INTENT_NEIGHBOURS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "orchestrator/intent_classifier.h"
#include "orchestrator/intent_set.h"

namespace chimere::orchestrator {

/// Vectors of texts, one each, of unit length.
using Embed =
    std::function<Result<std::vector<std::vector<float>>>(const std::vector<std::string>&)>;

/// Thread-safe. How much the neighbours count beside the words is fitted to the examples by
/// cross-validation, so that an embedder that tells the intents no better counts for nothing.
class IntentNeighbours {
 public:
  /// Embeds the examples. Errors: those of `embed`.
  static Result<IntentNeighbours> create(std::span<const IntentSpec> intents,
                                         const IntentClassifier& words, Embed embed);

  /// Calibrated probabilities of the intents. `by_words`: those of the classifier. Errors: those of
  /// the embedder.
  Result<std::vector<double>> probabilities(std::string_view text,
                                            const std::vector<double>& by_words) const;
  /// Exponent of the neighbours' votes; 0: they do not help.
  double weight() const { return weight_; }

 private:
  using Near = std::vector<std::pair<double, size_t>>;  ///< similarity and intent
  /// Votes of the most similar examples for each intent. `skip`: whether to leave an example out.
  std::vector<double> votes(const std::vector<float>& query,
                            const std::function<bool(size_t)>& skip) const;
  void calibrate(const IntentClassifier& words);

  Embed embed_;
  size_t intents_ = 0;
  std::vector<std::vector<float>> vectors_;  ///< of the examples
  std::vector<size_t> labels_;
  double weight_ = 0;
  double temperature_ = 1;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_NEIGHBOURS_H_
