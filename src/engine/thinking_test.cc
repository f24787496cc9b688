#include "engine/thinking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "engine/engine.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;
using End = ThinkingCounts::End;

constexpr int32_t kOpen = 2;
constexpr int32_t kClose = 3;

ThinkingParams params(int32_t budget) {
  ThinkingParams p;
  p.budget = budget;
  p.open = kOpen;
  p.close = kClose;
  p.forced_closing = {30, 31};
  p.after_close = {32};
  p.resume = {33, 34};
  p.loop_breaker = {35};
  p.suppressed = {36};
  return p;
}

/// Drives a Thinking with logits that favour one token.
class Wanted {
 public:
  explicit Wanted(const ThinkingParams& p, int32_t max_tokens = -1,
                  std::vector<int32_t> prompt = {5, kOpen})
      : thinking_(p, prompt, max_tokens, tokenizer_), history_(std::move(prompt)) {}

  /// `height`: logit of the token; the others are 0.
  int32_t next(int32_t token, float height = 30, int32_t second = -1) {
    std::vector<float> logits(FakeModel::kVocab, 0.F);
    logits[static_cast<size_t>(token)] = height;
    if (second >= 0) logits[static_cast<size_t>(second)] = height / 2;
    LogitRow row(logits);
    const auto sampled = thinking_.choose(sampler_, row, history_);
    EXPECT_TRUE(sampled.ok());
    history_.push_back(sampled->id);
    return sampled->id;
  }
  const Thinking& thinking() const { return thinking_; }

 private:
  FakeTokenizer tokenizer_;
  sampling::Sampler sampler_{sampling::SamplingParams{}};
  Thinking thinking_;
  std::vector<int32_t> history_;
};

TEST(Certainty, IsOneForCertainAndSmallForUniformDistributions) {
  std::vector<float> logits(100, 0.F);
  EXPECT_NEAR(certainty(sampling::log_sum_exp(logits), 100), 0.625 / 100, 1e-6);
  logits[7] = 50;
  EXPECT_NEAR(certainty(sampling::log_sum_exp(logits), 100), 1, 1e-6);
  logits[8] = 50;  // two equal ones: p_max 1/2, entropy ln 2
  EXPECT_NEAR(certainty(sampling::log_sum_exp(logits), 100),
              0.625 / 2 + 0.375 * (1 - std::log(2.0) / std::log(100.0)), 1e-6);
}

TEST(Thinking, ClosesWithinItsBudget) {
  Wanted w(params(20));
  for (int i = 0; i < 18; ++i) EXPECT_EQ(w.next(4 + i, 1), 4 + i);
  EXPECT_EQ(w.next(25), 30);  // the closing sentence, then </think>
  EXPECT_EQ(w.next(25), 31);
  EXPECT_TRUE(w.thinking().inside());
  EXPECT_EQ(w.next(25), kClose);
  EXPECT_EQ(w.next(25), 32);
  EXPECT_FALSE(w.thinking().inside());
  EXPECT_EQ(w.thinking().counts().tokens, 20);
  EXPECT_EQ(w.thinking().counts().end, End::kBudget);
  // An answer must follow, without opening or closing reasoning again.
  EXPECT_EQ(w.next(0, 30, 7), 7);
  EXPECT_EQ(w.next(kOpen, 30, 8), 8);
  EXPECT_EQ(w.next(kClose, 30, 8), 8);
  EXPECT_EQ(w.next(0), 0);
}

TEST(Thinking, AnEndOfTheGenerationInsideReasoningEndsTheReasoning) {
  Wanted w(params(100));
  EXPECT_EQ(w.next(9, 1), 9);
  EXPECT_EQ(w.next(0), kClose);
  EXPECT_EQ(w.next(0), 32);
  EXPECT_EQ(w.next(0, 30, 11), 11);
  EXPECT_EQ(w.thinking().counts().end, End::kItself);
}

TEST(Thinking, ResumesUncertainReasoningThatEndsTooEarly) {
  ThinkingParams p = params(100);
  p.least = 10;
  Wanted w(p);
  for (int i = 0; i < 4; ++i) w.next(9 + i, 0.5F);
  EXPECT_EQ(w.next(kClose, 0.5F), 33);
  EXPECT_EQ(w.next(9), 34);
  EXPECT_EQ(w.thinking().counts().resumed, 1);
  Wanted sure(p);
  for (int i = 0; i < 4; ++i) sure.next(9 + i, 40);
  EXPECT_EQ(sure.next(kClose, 40), kClose);
}

TEST(Thinking, EndsWhenCertain) {
  class Sentences : public FakeTokenizer {
   public:
    std::string token_bytes(int32_t id, bool special) const override {
      return id == 9 ? "." : FakeTokenizer::token_bytes(id, special);
    }
  } tokenizer;
  ThinkingParams p = params(1000);
  sampling::Sampler sampler{sampling::SamplingParams{}};
  const std::vector<int32_t> history = {kOpen};
  Thinking thinking(p, history, -1, tokenizer);
  int tokens = 0;
  for (; thinking.inside() && tokens < 300; ++tokens) {
    std::vector<float> logits(FakeModel::kVocab, 0.F);
    // No period up to 64 repeats often enough to be a loop.
    logits[static_cast<size_t>(tokens % 29 == 28 ? 9 : 10 + tokens * tokens % 19)] = 50;
    LogitRow row(logits);
    ASSERT_TRUE(thinking.choose(sampler, row, history).ok());
  }
  EXPECT_EQ(thinking.counts().end, End::kCertain);
  EXPECT_GE(tokens, 64);
  EXPECT_LE(tokens, 64 + 29 + 4);
}

TEST(Thinking, ResamplesDoubtTokensWhenCertain) {
  class Sentences : public FakeTokenizer {
   public:
    std::string token_bytes(int32_t id, bool) const override { return id == 9 ? "." : "a"; }
  } tokenizer;
  for (const bool certain : {false, true}) {
    ThinkingParams p = params(1000);
    sampling::Sampler sampler{sampling::SamplingParams{}};
    const std::vector<int32_t> history = {kOpen};
    Thinking thinking(p, history, -1, tokenizer);
    int32_t last = -1;
    for (int i = 0; i < 34; ++i) {
      std::vector<float> logits(FakeModel::kVocab, 0.F);
      const int32_t wanted = i == 32 ? 9 : i == 33 ? 36 : 10 + i * i % 19;
      logits[static_cast<size_t>(wanted)] = certain ? 50.F : 1.F;
      LogitRow row(logits);
      last = thinking.choose(sampler, row, history)->id;
    }
    EXPECT_EQ(last != 36, certain);
    EXPECT_EQ(thinking.counts().suppressed_tokens, certain ? 1 : 0);
  }
}

TEST(Thinking, BreaksALoopOnceThenEndsTheReasoning) {
  Wanted w(params(1000));
  int loop_breakers = 0;
  int tokens = 0;
  while (w.thinking().inside() && tokens < 500) {
    const int32_t token = w.next(tokens++ % 3 + 5, 1);
    loop_breakers += token == 35 ? 1 : 0;
  }
  EXPECT_EQ(loop_breakers, 1);
  EXPECT_EQ(w.thinking().counts().end, End::kLoop);
  EXPECT_LT(tokens, 100);
}

TEST(Thinking, APromptWithClosedReasoningAllowsNoMore) {
  Wanted w(params(100), -1, {5, kOpen, 7, kClose, 32});
  EXPECT_FALSE(w.thinking().inside());
  EXPECT_EQ(w.next(kOpen, 30, 7), 7);
  Wanted earlier(params(100), -1, {5, kOpen, 7, kClose, 32, 8, 9, 10});
  EXPECT_EQ(earlier.next(kOpen), kOpen);  // the earlier reasoning belongs to another message
  EXPECT_TRUE(earlier.thinking().inside());
}

/// For random models, requests and stop strings, with and without drafts.
TEST(Thinking, BudgetsHoldAndAnAnswerFollows) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    Request request;
    request.prompt = {static_cast<int32_t>(4 + random() % 30), kOpen};
    request.sampling.temperature = 1;
    request.sampling.seed = random();
    const std::vector<int32_t> budgets = {-5, 0, 1, 3, 8, 20, 64, 256, 1 << 30};
    const int32_t budget = budgets[random() % budgets.size()];
    request.thinking = params(budget);
    request.thinking->least = static_cast<int32_t>(random() % 40);
    request.max_tokens = static_cast<int32_t>(8 + random() % 300);
    if (random() % 3 == 0) request.stop = {"G", "HI"};
    std::vector<int32_t> first;
    for (const Speculation s : {Speculation::off(), *Speculation::named("mtp")}) {
      FakeModel model(64);
      const FakeTokenizer tokenizer;
      const auto engine = Engine::create(model, tokenizer, {}).value();
      Outcome o;
      Request r = request;
      r.speculation = s;
      r.on_finish = [&](Outcome done) { o = std::move(done); };
      ASSERT_TRUE(engine->submit(std::move(r)).ok());
      while (engine->step()) {
      }
      std::vector<int32_t> ids;
      for (const auto& t : o.tokens) ids.push_back(t.id);
      const auto close = std::ranges::find(ids, kClose);
      ASSERT_NE(close, ids.end());
      EXPECT_LE(close - ids.begin(), std::max(budget, 0));
      EXPECT_EQ(close - ids.begin(), o.thinking.tokens);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), kClose), 1);
      EXPECT_EQ(std::count(ids.begin(), ids.end(), kOpen), 0);
      EXPECT_EQ(std::find(ids.begin(), close, 0), close);
      ASSERT_GE(ids.end() - close, 2);
      if (first.empty()) {
        first = ids;
      } else {
        EXPECT_EQ(ids, first);
      }
    }
  }
}

}  // namespace
}  // namespace chimere::engine
