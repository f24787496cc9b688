#include "orchestrator/router.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "orchestrator/words.h"

namespace chimere::orchestrator {
namespace {

constexpr std::array<std::string_view, Features::kCount> kNames = {
    "length", "questions", "parts", "reasoning", "code", "numbers", "constraints", "turns"};

constexpr auto kReasoningWords = std::to_array<std::string_view>(
    {"prove",     "derive",       "why",     "explain",  "analyse",  "analyze",
     "compare",   "design",       "plan",    "optimise", "optimize", "trade-offs",
     "tradeoffs", "step-by-step", "steps",   "strategy", "evaluate", "justify",
     "pourquoi",  "démontre",     "compare", "analyse",  "root",     "cause"});
constexpr auto kConstraintWords = std::to_array<std::string_view>(
    {"must", "without", "at-least", "least", "most", "exactly", "only", "except", "unless",
     "should", "cannot", "ensure", "doit", "sans"});

template <typename List>
int64_t count_in(const std::vector<std::string>& words, const List& list) {
  return std::ranges::count_if(
      words, [&](const std::string& w) { return std::ranges::find(list, w) != list.end(); });
}

/// n of them is half of very many.
double saturate(int64_t n, double half) {
  const auto x = static_cast<double>(n);
  return x / (x + half);
}

std::string two_digits(double value) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

}  // namespace

std::string_view Features::name(size_t index) { return kNames.at(index); }

Features features_of(const protocol::ChatRequest& request) {
  const std::string_view question = question_of(request);
  const std::vector<std::string> words = words_of(question);
  int64_t parts = 0;
  bool line_start = true;
  for (size_t i = 0; i < question.size(); ++i) {
    const char c = question[i];
    const bool bullet = (c == '-' || c == '*') && i + 1 < question.size() && question[i + 1] == ' ';
    const bool numbered = c >= '1' && c <= '9' && i + 1 < question.size() &&
                          (question[i + 1] == '.' || question[i + 1] == ')');
    parts += line_start && (bullet || numbered) ? 1 : 0;
    line_start = c == '\n' || (line_start && c == ' ');
  }
  parts += count_in(words, std::to_array<std::string_view>({"then", "also", "finally", "puis"}));
  Features out;
  out.values = {
      saturate(static_cast<int64_t>(words.size()), 80),
      saturate(std::max<int64_t>(0, std::ranges::count(question, '?') - 1), 1),
      saturate(parts, 2),
      saturate(count_in(words, kReasoningWords), 1),
      question.find("```") != std::string_view::npos ? 1.0 : 0.0,
      saturate(
          std::ranges::count_if(words, [](const auto& w) { return w[0] >= '0' && w[0] <= '9'; }),
          6),
      saturate(count_in(words, kConstraintWords), 2),
      saturate(static_cast<int64_t>(request.messages.size()), 20),
  };
  return out;
}

double complexity_of(const Features& features, std::optional<double> entropy,
                     const QualityHistory& history, const RouterWeights& weights) {
  double x = weights.bias;
  for (size_t i = 0; i < Features::kCount; ++i) x += weights.features[i] * features.values[i] * 2;
  if (entropy) x += weights.entropy * (*entropy - 1);
  const auto fast = static_cast<size_t>(Mode::kFast);
  // A few outcomes are no history.
  if (history.count[fast] >= 5) x += weights.history * (0.5 - history.mean[fast]);
  return 1 / (1 + std::exp(-x));
}

RouterWeights fit_weights(const std::vector<RouterOutcome>& outcomes, const RouterWeights& prior) {
  const auto failed = std::ranges::count_if(outcomes, &RouterOutcome::failed);
  const auto n = static_cast<int64_t>(outcomes.size());
  if (n < 40 || failed < 5 || n - failed < 5) return prior;
  constexpr int kRounds = 300;
  constexpr double kRate = 0.5;
  constexpr double kPenalty = 0.02;
  RouterWeights w = prior;
  for (int round = 0; round < kRounds; ++round) {
    RouterWeights slope;
    slope.features = {};
    slope.entropy = 0;
    slope.bias = 0;
    for (const RouterOutcome& o : outcomes) {
      const double error = complexity_of(o.features, o.entropy, {}, w) - (o.failed ? 1.0 : 0.0);
      for (size_t i = 0; i < Features::kCount; ++i) {
        slope.features[i] += error * o.features.values[i] * 2;
      }
      if (o.entropy) slope.entropy += error * (*o.entropy - 1);
      slope.bias += error;
    }
    const auto step = [&](double& value, double gradient, double before) {
      value -= kRate * (gradient / static_cast<double>(n) + kPenalty * (value - before));
    };
    for (size_t i = 0; i < Features::kCount; ++i) {
      step(w.features[i], slope.features[i], prior.features[i]);
    }
    step(w.entropy, slope.entropy, prior.entropy);
    step(w.bias, slope.bias, prior.bias);
  }
  return w;
}

Route route(const Features& features, std::optional<double> entropy, const QualityHistory& history,
            const RouterWeights& weights) {
  Route out;
  out.complexity = complexity_of(features, entropy, history, weights);
  out.mode = out.complexity < kFastBelow   ? Mode::kFast
             : out.complexity < kUltraFrom ? Mode::kQuality
                                           : Mode::kUltra;
  std::string why = "complexity " + two_digits(out.complexity);
  std::vector<std::pair<double, size_t>> terms;
  for (size_t i = 0; i < Features::kCount; ++i) {
    terms.emplace_back(weights.features[i] * features.values[i], i);
  }
  std::ranges::sort(terms, std::greater<>());
  for (size_t i = 0; i < 2; ++i) {
    if (terms[i].first < 0.1) break;
    why += (i == 0 ? " from " : ", ") + std::string(Features::name(terms[i].second));
  }
  out.reasons.push_back(why + ": " + std::string(mode_name(out.mode)));
  if (entropy)
    out.reasons.push_back("entropy of the first tokens " + two_digits(*entropy) + " nats");
  const auto fast = static_cast<size_t>(Mode::kFast);
  if (history.count[fast] >= 5) {
    out.reasons.push_back("earlier fast answers scored " + two_digits(history.mean[fast]));
  }
  return out;
}

}  // namespace chimere::orchestrator
