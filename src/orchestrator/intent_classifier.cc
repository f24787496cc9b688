#include "orchestrator/intent_classifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace chimere::orchestrator {
namespace {

// The best of a few values in cross-validation.
constexpr int kEpochs = 30;
constexpr float kRate = 0.3F;
constexpr float kDecay = 2e-4F;  ///< of the weights, at each step in which they take part
/// Makes probabilities of the classifier what cross-validation finds: intent_test checks it.
constexpr double kTemperature = 0.8;
constexpr size_t kFolds = 5;
/// Neighbouring examples of a file resemble each other: they are in one fold.
constexpr size_t kBlock = 8;

std::vector<double> softmax(std::vector<double> logits, double temperature) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (double& x : logits) sum += x = std::exp((x - most) / temperature);
  for (double& x : logits) x /= sum;
  return logits;
}

}  // namespace

IntentLexicon lexicon_of(std::span<const IntentSpec> intents) {
  IntentLexicon out;
  for (uint32_t i = 0; i < intents.size(); ++i) {
    for (const std::string& phrase : intents[i].actions) out.add(phrase, kKindsOfWords * i);
    for (const std::string& phrase : intents[i].subjects) out.add(phrase, kKindsOfWords * i + 1);
    for (const std::string& phrase : intents[i].names) out.add(phrase, kKindsOfWords * i + 2);
  }
  return out;
}

IntentClassifier::IntentClassifier(std::span<const IntentSpec> intents,
                                   const IntentLexicon& lexicon)
    : lexicon_(lexicon), intents_(intents.size()) {
  for (uint32_t i = 0; i < intents.size(); ++i) {
    for (const std::string& text : intents[i].examples) {
      Row& row = rows_.emplace_back();
      row.intent = i;
      for (const auto& [hash, value] : intent_features(text, lexicon_)) {
        const auto id = ids_.emplace(hash, static_cast<uint32_t>(ids_.size())).first->second;
        row.features.emplace_back(id, value);
      }
    }
  }
  weights_ = fit([](size_t /*example*/) { return true; });
}

size_t IntentClassifier::fold_of(size_t example) { return example / kBlock % kFolds; }

IntentClassifier::Weights IntentClassifier::fit(const std::function<bool(size_t)>& with) const {
  // AdaGrad in an order that a linear congruential generator shuffles.
  Weights weights(ids_.size() * intents_, 0.0F);
  Weights squares(weights.size(), 1e-4F);
  std::vector<const Row*> order;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (with(i)) order.push_back(&rows_[i]);
  }
  uint64_t state = 12345;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (size_t i = order.size(); i > 1; --i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    for (const Row* const row : order) {
      std::vector<double> errors = softmax(logits(*row, weights), 1);
      errors[row->intent] -= 1;
      for (const auto& [id, value] : row->features) {
        for (size_t k = 0; k < intents_; ++k) {
          const size_t at = id * intents_ + k;
          const float gradient = static_cast<float>(errors[k]) * value + kDecay * weights[at];
          squares[at] += gradient * gradient;
          weights[at] -= kRate * gradient / std::sqrt(squares[at]);
        }
      }
    }
  }
  return weights;
}

std::vector<double> IntentClassifier::logits(const Row& row, const Weights& weights) const {
  std::vector<double> out(intents_, 0.0);
  for (const auto& [id, value] : row.features) {
    const float* const w = weights.data() + id * intents_;
    for (size_t k = 0; k < intents_; ++k) out[k] += double{value} * double{w[k]};
  }
  return out;
}

IntentClassifier::Row IntentClassifier::row_of(std::string_view text) const {
  Row out;
  for (const auto& [hash, value] : intent_features(text, lexicon_)) {
    if (const auto found = ids_.find(hash); found != ids_.end()) {
      out.features.emplace_back(found->second, value);
    }
  }
  return out;
}

std::vector<std::vector<double>> IntentClassifier::held_out() const {
  std::vector<std::vector<double>> out(rows_.size());
  for (size_t fold = 0; fold < kFolds; ++fold) {
    const Weights weights = fit([fold](size_t example) { return fold_of(example) != fold; });
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (fold_of(i) == fold) out[i] = softmax(logits(rows_[i], weights), kTemperature);
    }
  }
  return out;
}

std::vector<double> IntentClassifier::probabilities(std::string_view text) const {
  return softmax(logits(row_of(text), weights_), kTemperature);
}

}  // namespace chimere::orchestrator
