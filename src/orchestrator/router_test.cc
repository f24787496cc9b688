#include "orchestrator/router.h"

#include <gtest/gtest.h>

#include <random>

#include "orchestrator/decision_log.h"

namespace chimere::orchestrator {
namespace {

protocol::ChatRequest asking(const std::string& question) {
  protocol::ChatRequest out;
  text::ChatMessage message;
  message.role = "user";
  message.content = question;
  out.messages.push_back(message);
  return out;
}

TEST(Router, PlainQuestionsAreFastAndLongTasksAreNot) {
  const RouterWeights weights;
  for (const char* question :
       {"What does the command ls do?", "Hello!", "Which option of tar extracts?"}) {
    const Route r = route(features_of(asking(question)), std::nullopt, {}, weights);
    EXPECT_EQ(r.mode, Mode::kFast) << question << r.complexity;
    EXPECT_LT(r.complexity, kUnsureFrom) << question;
    EXPECT_FALSE(r.reasons.empty());
  }
  const Route hard =
      route(features_of(asking("Design a cache and explain why. It must:\n1. evict in O(1)\n2. be "
                               "thread safe\n3. never block readers\nCompare two strategies and "
                               "justify the trade-offs step-by-step, without a global lock.")),
            std::nullopt, {}, weights);
  EXPECT_GE(hard.complexity, kUltraFrom);
  EXPECT_EQ(hard.mode, Mode::kUltra);
}

TEST(Router, EntropyAndHistoryMoveTheDecision) {
  const RouterWeights weights;
  const Features features = features_of(asking("Explain why the sky is blue"));
  QualityHistory history;
  const double plain = complexity_of(features, std::nullopt, history, weights);
  EXPECT_GT(complexity_of(features, 3.0, history, weights), plain);
  EXPECT_LT(complexity_of(features, 0.1, history, weights), plain);
  history.count[static_cast<size_t>(Mode::kFast)] = 10;
  history.mean[static_cast<size_t>(Mode::kFast)] = 0.1;
  EXPECT_GT(complexity_of(features, std::nullopt, history, weights), plain);
}

TEST(Router, LearnsFromOutcomes) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<RouterOutcome> outcomes;
  for (int i = 0; i < 400; ++i) {
    RouterOutcome o;
    for (double& v : o.features.values) v = uniform(random) * 0.3;
    // Long questions fail here, whatever else they are.
    o.features.values[0] = uniform(random);
    o.failed = o.features.values[0] > 0.5;
    outcomes.push_back(o);
  }
  const RouterWeights prior;
  const RouterWeights learned = fit_weights(outcomes, prior);
  const auto wrong = [&](const RouterWeights& w) {
    int n = 0;
    for (const RouterOutcome& o : outcomes) {
      n += (complexity_of(o.features, o.entropy, {}, w) >= kFastBelow) != o.failed ? 1 : 0;
    }
    return n;
  };
  EXPECT_LT(wrong(learned), 40);
  EXPECT_LT(wrong(learned) * 2, wrong(prior));
  outcomes.resize(20);
  EXPECT_EQ(fit_weights(outcomes, prior).features, prior.features);
}

TEST(DecisionLog, KeepsReasonsAndScores) {
  auto opened = DecisionLog::open(":memory:");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  DecisionLog& log = **opened;
  for (int i = 0; i < 10; ++i) {
    Decision d;
    d.intent = "code";
    d.mode = Mode::kFast;
    d.reasons = R"(["because"])";
    d.metadata = "{}";
    d.score = 0.25;
    if (i % 2 == 0) d.entropy = 1.5;
    d.features.values[2] = 0.5;
    log.record(d);
  }
  const auto recent = log.recent(3);
  ASSERT_TRUE(recent.ok()) << recent.error().message;
  ASSERT_EQ(recent->size(), 3U);
  EXPECT_EQ(recent->front().reasons, R"(["because"])");
  EXPECT_FALSE(recent->front().entropy.has_value());
  EXPECT_EQ(recent->at(1).entropy, 1.5);
  EXPECT_EQ(recent->front().features.values[2], 0.5);
  EXPECT_EQ(recent->front().score, 0.25);
  const QualityHistory history = log.history("code");
  EXPECT_EQ(history.count[static_cast<size_t>(Mode::kFast)], 10);
  EXPECT_NEAR(history.mean[static_cast<size_t>(Mode::kFast)], 0.25, 1e-12);
}

}  // namespace
}  // namespace chimere::orchestrator
