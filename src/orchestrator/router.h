// How much effort a request gets: features of its text, how sure the model is of its first tokens,
// and how good earlier answers of each mode were.
#ifndef CHIMERE_ORCHESTRATOR_ROUTER_H_
#define CHIMERE_ORCHESTRATOR_ROUTER_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/pipeline.h"
#include "protocol/requests.h"

namespace chimere::orchestrator {

/// Features of a request, each from 0 to about 1.
struct Features {
  static constexpr size_t kCount = 8;
  std::array<double, kCount> values{};
  /// For reasons, logs and weights: "length", "questions", "parts", "reasoning", "code", "numbers",
  /// "constraints", "turns".
  static std::string_view name(size_t index);
};
Features features_of(const protocol::ChatRequest& request);

/// Weights of a logistic model: the probability that one plain generation is not enough.
struct RouterWeights {
  std::array<double, Features::kCount> features = {1.0, 0.8, 1.2, 2.2, 0.8, 0.6, 0.8, 0.2};
  double entropy = 1.2;  ///< per nat above 1
  double history = 2.0;  ///< per point that earlier fast answers fell short of 0.5
  double bias = -2.6;
};

/// How a fast answer turned out.
struct RouterOutcome {
  Features features;
  std::optional<double> entropy;
  bool failed = false;  ///< its score was below 0.5
};
/// Weights from outcomes: logistic regression with a penalty on the distance from `prior`. `prior`
/// itself where there are fewer than 40 outcomes, or fewer than 5 of one kind.
RouterWeights fit_weights(const std::vector<RouterOutcome>& outcomes, const RouterWeights& prior);

/// Answers of an intent so far, by mode.
struct QualityHistory {
  std::array<double, 4> mean{};  ///< score, by Mode
  std::array<int64_t, 4> count{};
};

struct Route {
  Mode mode = Mode::kFast;
  double complexity = 0;
  std::vector<std::string> reasons;
};

/// The probability from features, entropy and history.
double complexity_of(const Features& features, std::optional<double> entropy,
                     const QualityHistory& history, const RouterWeights& weights);

/// Below kFastBelow one generation is enough, from kUltraFrom the search runs. Between kUnsureFrom
/// and kUnsureTo the entropy of the first tokens decides: it is worth a probe.
inline constexpr double kFastBelow = 0.5;
inline constexpr double kUltraFrom = 0.85;
inline constexpr double kUnsureFrom = 0.35;
inline constexpr double kUnsureTo = 0.65;

Route route(const Features& features, std::optional<double> entropy, const QualityHistory& history,
            const RouterWeights& weights);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_ROUTER_H_
