// What a request is about: a cascade of stages, from the cheapest to the dearest. A stage that is
// not sure abstains, and the next one is asked.
#ifndef CHIMERE_ORCHESTRATOR_INTENT_H_
#define CHIMERE_ORCHESTRATOR_INTENT_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "orchestrator/intent_classifier.h"
#include "orchestrator/intent_neighbours.h"
#include "orchestrator/intent_set.h"
#include "orchestrator/report.h"

namespace chimere::orchestrator {

/// The stages before the model. Thread-safe.
class IntentCascade {
 public:
  /// Fits the stages to the examples of the intents: about 0.2 s for the shipped ones.
  /// `embed`: of the stage of examples, called at its first use; empty: there is no such stage.
  IntentCascade(std::vector<IntentSpec> intents, Embed embed);

  /// Stage 1: a phrase of one intent where no word of another one occurs.
  std::optional<Intent> by_rules(std::string_view question) const;
  /// Stage 2: names of files and fenced code, where the words are not sure of another intent.
  std::optional<Intent> by_files(std::string_view question) const;
  /// Stage 3: a linear classifier of words. Abstains below a probability of 0.7.
  std::optional<Intent> by_words(std::string_view question) const;
  /// Stage 4: stage 3 together with the nearest examples. Abstains below the same probability.
  std::optional<Intent> by_examples(std::string_view question) const;

  /// All intents with their probabilities by the words, the most probable one first.
  std::vector<Intent> ranked(std::string_view question) const;
  const std::vector<IntentSpec>& intents() const { return intents_; }
  const IntentClassifier& classifier() const { return classifier_; }

 private:
  struct Neighbours {
    std::once_flag made;
    std::optional<IntentNeighbours> examples;  ///< absent: the embedder failed
  };
  std::optional<size_t> rule(std::string_view question) const;
  std::optional<size_t> file(std::string_view question) const;
  /// The share of the examples that `stage` decides and decides rightly.
  double precision(std::optional<size_t> (IntentCascade::*stage)(std::string_view) const) const;
  std::optional<Intent> sure(const std::vector<double>& probabilities, const char* stage) const;

  const std::vector<IntentSpec> intents_;
  const Embed embed_;
  const IntentLexicon words_;
  const IntentClassifier classifier_;
  IntentLexicon phrases_;
  std::unordered_map<std::string, size_t> files_;  ///< intent by ending
  double rule_precision_ = 0;
  double file_precision_ = 0;
  std::unique_ptr<Neighbours> neighbours_ = std::make_unique<Neighbours>();
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_INTENT_H_
