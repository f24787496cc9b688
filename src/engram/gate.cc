#include "engram/gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engram/gate_tables.h"

namespace chimere::engram {
namespace {

double logit(double p) {
  const double clamped = std::clamp(p, 1e-4, 1 - 1e-4);
  return std::log(clamped / (1 - clamped));
}

Gate make_kneser_ney() {
  std::vector<float> values(kMaxOrder * kFeatures, 0);
  for (size_t order = 0; order < kMaxOrder; ++order) values[order * kFeatures] = 1;
  return Gate::from_values(values).value();
}

}  // namespace

double ModelPrediction::log_probability(uint32_t token) const {
  if (token >= logits.size()) return -std::numeric_limits<double>::infinity();
  return static_cast<double>(logits[token]) - log_sum;
}

double kneser_ney_share(const Evidence& evidence) {
  return std::min(1.0, static_cast<double>(evidence.left) / static_cast<double>(evidence.total));
}

Features features_of(const Evidence& evidence, const ModelPrediction& prediction,
                     const Familiarity& before) {
  const Counted& top = evidence.top.front();
  const double total = evidence.total;
  const double log_p_top = std::max(-12.0, prediction.log_probability(top.token));
  const auto f = [](double x) { return static_cast<float>(x); };
  return {f(logit(kneser_ney_share(evidence))),
          1,
          f(std::log1p(total)),
          f(std::log1p(static_cast<double>(evidence.distinct))),
          f(logit(static_cast<double>(top.count) / total)),  // dominance of the table's first token
          f(log_p_top),  // the model's probability of that token
          f(std::exp(log_p_top)),
          static_cast<uint32_t>(prediction.top) == top.token ? 1.0F : 0.0F,  // agreement
          f(prediction.entropy),
          f(std::exp(prediction.log_p_max)),
          f(before.probability),
          f(before.order)};
}

const Gate& Gate::learned() {
  static const Gate gate(kLearnedGate);
  return gate;
}

const Gate& Gate::kneser_ney() {
  static const Gate gate = make_kneser_ney();
  return gate;
}

Result<Gate> Gate::from_values(std::span<const float> values) {
  if (values.size() != kMaxOrder * kFeatures ||
      !std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) {
    return invalid_data("The table's gate does not have " + std::to_string(kMaxOrder * kFeatures) +
                        " finite numbers; fit it again with `chimere engram fit`.");
  }
  std::array<float, kMaxOrder * kFeatures> copy;
  std::ranges::copy(values, copy.begin());
  return Gate(copy);
}

double Gate::share(int order, const Features& features) const {
  const auto row = static_cast<size_t>(std::clamp(order, 1, kMaxOrder) - 1) * kFeatures;
  double sum = 0;
  for (size_t i = 0; i < kFeatures; ++i)
    sum += static_cast<double>(values_[row + i]) * static_cast<double>(features[i]);
  return 1 / (1 + std::exp(-sum));
}

}  // namespace chimere::engram
