// A linear classifier of intents, fitted to labelled examples in a fraction of a second, with
// probabilities that cross-validation calibrates.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_CLASSIFIER_H_
#define CHIMERE_ORCHESTRATOR_INTENT_CLASSIFIER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orchestrator/intent_features.h"
#include "orchestrator/intent_set.h"

namespace chimere::orchestrator {

/// The words of the intents, in one class for each intent and kind of word.
IntentLexicon lexicon_of(std::span<const IntentSpec> intents);

/// Thread-safe. Multinomial logistic regression on intent_features().
class IntentClassifier {
 public:
  /// Fits to the examples of the intents; the same ones give the same classifier.
  /// `lexicon`: lexicon_of() them; it must outlive the classifier.
  IntentClassifier(std::span<const IntentSpec> intents, const IntentLexicon& lexicon);

  /// One for each intent, in their order; their sum is 1.
  std::vector<double> probabilities(std::string_view text) const;
  /// The probabilities that a classifier fitted to the other folds gives each example, in the order
  /// of the intents and their examples: what is to be expected for unseen requests. Takes as long
  /// as five fits.
  std::vector<std::vector<double>> held_out() const;
  /// Of an example, by its number among those of all intents.
  static size_t fold_of(size_t example);

 private:
  struct Row {
    std::vector<std::pair<uint32_t, float>> features;
    uint32_t intent = 0;
  };
  using Weights = std::vector<float>;  ///< by feature, then by intent
  /// Fits to the examples whose numbers `with` accepts.
  Weights fit(const std::function<bool(size_t)>& with) const;
  std::vector<double> logits(const Row& row, const Weights& weights) const;
  Row row_of(std::string_view text) const;

  const IntentLexicon& lexicon_;
  const size_t intents_;
  std::unordered_map<uint64_t, uint32_t> ids_;  ///< of the features of the examples
  std::vector<Row> rows_;                       ///< of the examples
  Weights weights_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_CLASSIFIER_H_
