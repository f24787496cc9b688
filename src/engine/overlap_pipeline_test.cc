// Overlap scheduling: steps are launched before the tokens of the preceding step are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fresh_seed.h"
#include "engine/engine.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;
using ::testing::HasSubstr;

/// A request whose tokens can be sampled on the GPU.
Request request_for_gpu(std::mt19937& random, int32_t max_tokens) {
  Request r;
  for (size_t n = 1 + random() % 100; n > 0; --n) {
    r.prompt.push_back(static_cast<int32_t>(2 + random() % (FakeModel::kVocab - 2)));
  }
  r.sampling.temperature = random() % 3 == 0 ? 0.F : 0.8F;
  r.sampling.top_k = 8;
  r.sampling.top_p = 0.9F;
  r.sampling.seed = random();
  r.sampling.logprobs = random() % 2 == 0 ? 2 : -1;
  r.max_tokens = max_tokens;
  return r;
}

class OverlapScheduling : public testing::Test {
 protected:
  OverlapScheduling() { model_.overlap_supported = true; }

  void submit(Request request) {
    const size_t i = outcomes_.size();
    outcomes_.emplace_back();
    finished_.push_back(0);
    request.on_finish = [this, i](Outcome o) {
      ++finished_[i];
      outcomes_[i] = std::move(o);
    };
    const auto id = engine_->submit(std::move(request));
    ASSERT_TRUE(id.ok());
    ids_.push_back(*id);
  }
  void finish() {
    for (int steps = 0; engine_->step(); ++steps) ASSERT_LT(steps, 100000);
    EXPECT_EQ(model_.steps_in_flight(), 0U);
    EXPECT_EQ(model_.states().pages_in_use(), 0);
    EXPECT_EQ(model_.states().slots_in_use(), 0);
    EXPECT_EQ(model_.states().pending_rows_in_use(), 0);
    EXPECT_THAT(finished_, testing::Each(1));
  }
  void step(int n) {
    for (; n > 0; --n) engine_->step();
  }

  FakeModel model_{64};
  const FakeTokenizer tokenizer_;
  std::unique_ptr<Engine> engine_ = Engine::create(model_, tokenizer_, {}).value();
  std::vector<Outcome> outcomes_;
  std::vector<int> finished_;
  std::vector<RequestId> ids_;
};

/// The outcome with a model that does not support overlap.
Outcome alone(Request request) {
  request.speculation = Speculation::off();
  FakeModel model(64);
  const FakeTokenizer tokenizer;
  const auto engine = Engine::create(model, tokenizer, {}).value();
  Outcome outcome;
  request.on_finish = [&](Outcome o) { outcome = std::move(o); };
  EXPECT_TRUE(engine->submit(std::move(request)).ok());
  while (engine->step()) {
  }
  EXPECT_EQ(model.waits, 0U);
  return outcome;
}

std::vector<int32_t> ids_of(const Outcome& o) {
  std::vector<int32_t> ids;
  for (const auto& t : o.tokens) ids.push_back(t.id);
  return ids;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.reason, b.reason) << a.error.message << b.error.message;
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(ids_of(a), ids_of(b));
  for (size_t i = 0; i < std::min(a.tokens.size(), b.tokens.size()); ++i) {
    EXPECT_EQ(a.tokens[i].logprob, b.tokens[i].logprob);
  }
}

TEST_F(OverlapScheduling, OneGeneration) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Request r = request_for_gpu(random, 40);
  submit(r);
  finish();
  expect_same(outcomes_[0], alone(r));
  // All decode steps; no step is launched after the last token.
  const auto tokens = outcomes_[0].tokens.size();
  if (outcomes_[0].reason == FinishReason::kLength) {
    EXPECT_EQ(model_.async_steps, tokens - 1);
  }
  EXPECT_LE(model_.steps, tokens + 4);
}

TEST_F(OverlapScheduling, ArrivingAndEndingGenerationsChangeNothing) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(request_for_gpu(random, static_cast<int32_t>(1 + random() % 60)));
    if (random() % 4 == 0) requests.back().stop = {"A", "QR"};
    if (random() % 6 == 0) requests.back().sampling.repeat_penalty = 1.3F;  // sampled on the host
    if (random() % 6 == 0) requests.back().speculation = Speculation::automatic();
    submit(requests.back());
    step(static_cast<int>(random() % 20));
  }
  finish();
  EXPECT_GT(model_.async_steps, 0U);
  for (size_t i = 0; i < requests.size(); ++i) expect_same(outcomes_[i], alone(requests[i]));
}

TEST_F(OverlapScheduling, CancelledWhileAStepIsInFlight) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Request stays = request_for_gpu(random, 50);
  submit(stays);
  submit(request_for_gpu(random, 1000));
  while (engine_->step() && model_.steps_in_flight() == 0) {
  }
  step(2);
  engine_->cancel(ids_[1]);
  step(2);
  EXPECT_EQ(finished_[1], 1);  // after the step in flight
  finish();
  if (!outcomes_[1].tokens.empty() && outcomes_[1].tokens.back().id != 0) {
    EXPECT_EQ(outcomes_[1].reason, FinishReason::kCancelled);
  }
  expect_same(outcomes_[0], alone(stays));
}

TEST_F(OverlapScheduling, AWrongTokenFromTheGpuFailsThatGenerationAlone) {
  std::mt19937 random(5);
  Request wrong = request_for_gpu(random, 30);
  while (alone(wrong).tokens.size() < 10) wrong = request_for_gpu(random, 30);
  const Request right = request_for_gpu(random, 30);
  submit(wrong);
  submit(right);
  model_.wrong_choice_at = 6;
  finish();
  EXPECT_EQ(outcomes_[0].reason, FinishReason::kError);
  EXPECT_THAT(outcomes_[0].error.message, HasSubstr("The GPU sampled token"));
  expect_same(outcomes_[1], alone(right));
}

TEST_F(OverlapScheduling, ALostGpuFailsAllRequestsAndTheEngineContinues) {
  std::mt19937 random(6);
  for (int i = 0; i < 3; ++i) submit(request_for_gpu(random, 30));
  model_.fail_wait_at = 4;
  finish();
  int lost = 0;
  for (const Outcome& o : outcomes_) lost += static_cast<int>(o.reason == FinishReason::kError);
  EXPECT_GE(lost, 1);
  const Request later = request_for_gpu(random, 30);
  submit(later);
  finish();
  expect_same(outcomes_.back(), alone(later));
}

TEST_F(OverlapScheduling, AnEngineMayEndWhileAStepIsInFlight) {
  std::mt19937 random(7);
  submit(request_for_gpu(random, 1000));
  while (engine_->step() && model_.steps_in_flight() == 0) {
  }
  EXPECT_GT(model_.steps_in_flight(), 0U);
  engine_.reset();
  EXPECT_EQ(model_.steps_in_flight(), 0U);
}

TEST_F(OverlapScheduling, ManyGenerationsOnAGpuHaveNoDrafts) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(request_for_gpu(random, 40));
    while (alone(requests.back()).tokens.size() < 20) {
      requests.back() = request_for_gpu(random, 40);
    }
    requests.back().speculation = Speculation::automatic();
    submit(requests.back());
  }
  step(12);
  EXPECT_EQ(model_.drafts, 0U);
  EXPECT_GT(model_.async_steps, 0U);
  finish();
  for (size_t i = 0; i < requests.size(); ++i) expect_same(outcomes_[i], alone(requests[i]));
}

TEST_F(OverlapScheduling, RequestedDraftsDisableOverlap) {
  std::mt19937 random(8);
  Request r = request_for_gpu(random, 60);
  r.speculation = *Speculation::named("mtp");
  submit(r);
  finish();
  EXPECT_EQ(model_.async_steps, 0U);
  expect_same(outcomes_[0], alone(r));
}

TEST_F(OverlapScheduling, AStandingQueueOverlaps) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  engine_ = Engine::create(model_, tokenizer_, {.max_running = 4}).value();
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(request_for_gpu(random, 50));
    requests.back().owner = std::to_string(random() % 3);
    while (alone(requests.back()).tokens.size() < 30) {
      requests.back().sampling.seed = random();
      requests.back().prompt.push_back(static_cast<int32_t>(2 + random() % 30));
    }
    submit(requests.back());
  }
  // While requests wait, all places are taken, so that only a step after which a request ends or
  // starts has no successor in flight.
  while (engine_->counters().waiting > 0) engine_->step();
  const EngineCounters counters = engine_->counters();
  EXPECT_GT(10 * counters.overlapped_steps, 8 * counters.steps);
  finish();
  for (size_t i = 0; i < requests.size(); ++i) expect_same(outcomes_[i], alone(requests[i]));
}

TEST_F(OverlapScheduling, StepsWithPromptRowsOverlap) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  engine_ = Engine::create(model_, tokenizer_, {.max_step_rows = 80, .max_running = 6}).value();
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(request_for_gpu(random, 30));
    for (int n = 0; n < 300; ++n) {
      requests.back().prompt.push_back(static_cast<int32_t>(1 + random() % 30));
    }
    submit(requests.back());
    step(static_cast<int>(random() % 10));
  }
  finish();
  EXPECT_GT(model_.overlapped_prompts, 12U);
  for (size_t i = 0; i < requests.size(); ++i) expect_same(outcomes_[i], alone(requests[i]));
}

/// The cache gets the states at the prefix points, not those after the rows launched meanwhile.
TEST_F(OverlapScheduling, PrefixPointsOfLaunchedStepsAreCached) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto cache = PrefixCache::create(model_.states(), {}).value();
  engine_ = Engine::create(model_, tokenizer_,
                           {.max_step_rows = 80, .max_running = 6, .cache = cache.get()})
                .value();
  std::vector<int32_t> conversation;
  std::vector<Request> requests;
  int reused = 0;
  for (int turn = 0; turn < 6; ++turn) {
    conversation.push_back(1);
    for (size_t n = 40 + random() % 100; n > 0; --n) {
      conversation.push_back(static_cast<int32_t>(2 + random() % 30));
    }
    for (int i = 0; i < 3; ++i) {
      requests.push_back(request_for_gpu(random, 20));
      requests.back().prompt.insert(requests.back().prompt.begin(), conversation.begin(),
                                    conversation.end());
      requests.back().warmup = false;
      submit(requests.back());
    }
    while (engine_->step()) {
    }
  }
  EXPECT_GT(model_.overlapped_prompts, 0U);
  for (size_t i = 0; i < requests.size(); ++i) {
    reused += outcomes_[i].reused_tokens > 0 ? 1 : 0;
    expect_same(outcomes_[i], alone(requests[i]));
  }
  EXPECT_GT(reused, 5);
  engine_.reset();
}

}  // namespace
}  // namespace chimere::engine
