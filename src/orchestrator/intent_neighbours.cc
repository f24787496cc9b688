#include "orchestrator/intent_neighbours.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace chimere::orchestrator {
namespace {

constexpr size_t kNeighbours = 8;
/// How sharply an example loses its vote with its distance from the nearest one.
constexpr double kSharpness = 8;
/// What each intent has without a vote.
constexpr double kNoVote = 0.05;

/// p(words)^(1/temperature) * votes^weight, of sum 1.
std::vector<double> combined(const std::vector<double>& words, const std::vector<double>& votes,
                             double weight, double temperature) {
  std::vector<double> out(words.size());
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::pow(std::max(words[i], 1e-12), 1 / temperature) * std::pow(votes[i], weight);
    sum += out[i];
  }
  for (double& x : out) x /= sum;
  return out;
}

}  // namespace

Result<IntentNeighbours> IntentNeighbours::create(std::span<const IntentSpec> intents,
                                                  const IntentClassifier& words, Embed embed) {
  IntentNeighbours out;
  std::vector<std::string> texts;
  for (size_t i = 0; i < intents.size(); ++i) {
    texts.insert(texts.end(), intents[i].examples.begin(), intents[i].examples.end());
    out.labels_.resize(texts.size(), i);
  }
  CHIMERE_TRY(out.vectors_, embed(texts));
  if (out.vectors_.size() != texts.size()) {
    return invalid_data("The embedder returned another number of vectors than of texts.");
  }
  out.embed_ = std::move(embed);
  out.intents_ = intents.size();
  out.calibrate(words);
  return out;
}

std::vector<double> IntentNeighbours::votes(const std::vector<float>& query,
                                            const std::function<bool(size_t)>& skip) const {
  Near near;
  for (size_t i = 0; i < vectors_.size(); ++i) {
    if (skip(i)) continue;
    const std::vector<float>& v = vectors_[i];
    const size_t size = std::min(v.size(), query.size());
    const float dot = std::inner_product(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(size),
                                         query.begin(), 0.0F);
    near.emplace_back(double{dot}, labels_[i]);
  }
  const size_t kept = std::min(near.size(), kNeighbours);
  std::ranges::partial_sort(near, near.begin() + static_cast<std::ptrdiff_t>(kept),
                            std::greater<>());
  std::vector<double> out(intents_, kNoVote);
  for (size_t i = 0; i < kept; ++i) {
    out[near[i].second] += std::exp(kSharpness * (near[i].first - near.front().first));
  }
  return out;
}

void IntentNeighbours::calibrate(const IntentClassifier& words) {
  const auto held_out = words.held_out();
  std::vector<std::vector<double>> all(held_out.size());
  for (size_t i = 0; i < held_out.size(); ++i) {
    const size_t fold = IntentClassifier::fold_of(i);
    all[i] = votes(vectors_[i], [fold](size_t j) { return IntentClassifier::fold_of(j) == fold; });
  }
  double least = std::numeric_limits<double>::infinity();
  for (const double weight : {0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5}) {
    for (double temperature = 0.8; temperature < 2.5; temperature *= 1.1) {
      double loss = 0;
      for (size_t i = 0; i < all.size(); ++i) {
        const auto p = combined(held_out[i], all[i], weight, temperature);
        loss -= std::log(std::max(p[labels_[i]], 1e-12));
      }
      if (loss >= least) continue;
      least = loss;
      weight_ = weight;
      temperature_ = temperature;
    }
  }
}

Result<std::vector<double>> IntentNeighbours::probabilities(
    std::string_view text, const std::vector<double>& by_words) const {
  CHIMERE_TRY(const auto query, embed_({std::string(text)}));
  if (query.size() != 1) return invalid_data("The embedder returned no vector.");
  const auto all = votes(query.front(), [](size_t /*example*/) { return false; });
  return combined(by_words, all, weight_, temperature_);
}

}  // namespace chimere::orchestrator
