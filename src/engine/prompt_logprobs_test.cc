// Log-probabilities of a prompt's tokens: the same bits as those of the tokens when they are
// generated.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "support/fake_model.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;

struct EchoSeen {
  std::vector<sampling::Sampled> prompt;
  int calls = 0;
  Outcome outcome;
};

/// Runs the requests together; each arrives after a step.
std::vector<EchoSeen> run_echo(model::Model& model, const std::vector<Request>& requests,
                               EngineOptions options = {}) {
  const FakeTokenizer tokenizer;
  const auto engine = Engine::create(model, tokenizer, options).value();
  std::vector<EchoSeen> out(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request r = requests[i];
    r.on_prompt_logprobs = [&out, i](std::vector<sampling::Sampled> scored) {
      EXPECT_TRUE(out[i].outcome.tokens.empty());
      out[i].prompt = std::move(scored);
      ++out[i].calls;
    };
    r.on_finish = [&out, i](Outcome o) { out[i].outcome = std::move(o); };
    EXPECT_TRUE(engine->submit(std::move(r)).ok());
    engine->step();
  }
  while (engine->step()) {
  }
  return out;
}

void expect_same_tokens(const std::vector<sampling::Sampled>& a,
                        const std::vector<sampling::Sampled>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(a[i].id, b[i].id);
    ASSERT_EQ(a[i].logprob, b[i].logprob);
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t k = 0; k < a[i].top.size(); ++k) {
      ASSERT_EQ(a[i].top[k].id, b[i].top[k].id);
      ASSERT_EQ(a[i].top[k].value, b[i].top[k].value);
    }
  }
}

/// Generates from a prompt of one token, which is computed as a decode row too, then gives parts of
/// the whole as prompts.
void expect_scores_of_generated(model::Model& model, unsigned seed, EngineOptions options) {
  std::mt19937 random(seed);
  std::vector<Request> generating(3);
  for (Request& r : generating) {
    r.prompt = {static_cast<int32_t>(2 + random() % 30)};
    r.sampling.temperature = random() % 3 == 0 ? 0.F : 1.F;
    r.sampling.seed = random();
    r.sampling.logprobs = static_cast<int32_t>(random() % 4);
    r.max_tokens = 200;
    r.min_tokens = 200;
    r.prompt_logprobs = true;
  }
  const std::vector<EchoSeen> generated = run_echo(model, generating, options);

  std::vector<Request> scoring;
  std::vector<std::vector<sampling::Sampled>> expected;
  for (size_t i = 0; i < generating.size(); ++i) {
    const std::vector<sampling::Sampled>& tokens = generated[i].outcome.tokens;
    ASSERT_EQ(tokens.size(), 200U);
    EXPECT_EQ(generated[i].calls, 1);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, random() % 200}) {
      Request& r = scoring.emplace_back(generating[i]);
      for (size_t t = 0; t < n; ++t) r.prompt.push_back(tokens[t].id);
      r.min_tokens = 0;
      r.max_tokens = static_cast<int32_t>(random() % 3);
      r.speculation = random() % 2 ? Speculation::automatic() : Speculation::off();
      expected.emplace_back(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
  // One that is not scored is computed beside them.
  Request& plain = scoring.emplace_back(scoring.back());
  plain.prompt_logprobs = false;
  plain.max_tokens = 30;
  const std::vector<EchoSeen> scored = run_echo(model, scoring, options);
  EXPECT_EQ(scored.back().calls, 0);
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(scored[i].calls, 1);
    expect_same_tokens(scored[i].prompt, expected[i]);
    const Outcome& o = scored[i].outcome;
    EXPECT_EQ(o.reused_tokens, 0);
    EXPECT_EQ(o.prompt_tokens, static_cast<int32_t>(expected[i].size()) + 1);
    EXPECT_EQ(o.reason == FinishReason::kStop, !o.tokens.empty() && o.tokens.back().id == 0);
    if (o.reason == FinishReason::kLength) {
      EXPECT_EQ(static_cast<int32_t>(o.tokens.size()), scoring[i].max_tokens);
    }
    // The generation continues with the same bits.
    const std::vector<sampling::Sampled>& all = generated[i / 5].outcome.tokens;
    const size_t next = expected[i].size();
    if (!o.tokens.empty() && o.tokens[0].id == all[next].id) {
      EXPECT_EQ(o.tokens[0].logprob, all[next].logprob);
    }
  }
}

TEST(PromptLogprobs, EqualThoseOfGeneration) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  for (const bool on_gpu : {false, true}) {
    for (const bool overlap : {false, true}) {
      FakeModel model(600);
      model.on_gpu = on_gpu;
      model.overlap_supported = overlap;
      model.interleave_supported = overlap;
      expect_scores_of_generated(model, seed, {.max_step_rows = 150, .max_running = 6});
      EXPECT_EQ(model.states().pages_in_use(), 0);
    }
  }
}

TEST(PromptLogprobs, SurviveSuspension) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  FakeModel model(9);  // of 64 tokens: requests wait for pages and may be suspended
  expect_scores_of_generated(model, seed, {.max_step_rows = 150, .max_running = 6});
}

TEST(PromptLogprobs, EqualThoseOfGenerationWithARealModel) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  const auto file = test::make_tiny_model({.seed = seed, .n_mtp_layers = 1, .mixers = DType::kQ8_0})
                        .value()
                        .bytes();
  ThreadPool pool(2);
  const auto ops = kernels::make_cpu_ops(pool);
  const auto reader = gguf::Reader::from_bytes(file.data(), file.size()).value();
  const auto model = model::load_model(*reader, *ops, {.max_tokens = 4096, .drafts = true}).value();
  expect_scores_of_generated(*model, seed, {.max_step_rows = 150, .max_running = 6, .pool = &pool});
}

TEST(PromptLogprobs, LeaveThePrefixCacheAlone) {
  FakeModel model(64);
  const auto cache = PrefixCache::create(model.states(), {}).value();
  Request request;
  for (int i = 0; i < 300; ++i) request.prompt.push_back(2 + i % 30);
  request.max_tokens = 1;
  const EngineOptions options = {.cache = cache.get()};
  (void)run_echo(model, {request}, options);
  const EchoSeen warm = run_echo(model, {request}, options)[0];
  EXPECT_GT(warm.outcome.reused_tokens, 0);
  Request scored = request;
  scored.prompt_logprobs = true;
  const EchoSeen echo = run_echo(model, {scored}, options)[0];
  EXPECT_EQ(echo.outcome.reused_tokens, 0);
  EXPECT_EQ(echo.prompt.size(), 299U);
  // The states in the cache are still those of the prompt.
  const EchoSeen again = run_echo(model, {request}, options)[0];
  EXPECT_EQ(again.outcome.tokens[0].id, warm.outcome.tokens[0].id);
}

TEST(PromptLogprobs, BadRequestsAreRefused) {
  FakeModel model(64);
  const FakeTokenizer tokenizer;
  const auto engine = Engine::create(model, tokenizer, {}).value();
  Request request;
  request.prompt = {5};
  request.max_tokens = 0;
  EXPECT_FALSE(engine->submit(request).ok());
  request.prompt_logprobs = true;
  EXPECT_TRUE(engine->submit(request).ok());
  request.keep_prefix = true;
  EXPECT_FALSE(engine->submit(request).ok());
  request.keep_prefix = false;
  request.keep_state = true;
  EXPECT_FALSE(engine->submit(request).ok());
}

TEST(PromptLogprobs, AnErrorEndsTheRequest) {
  FakeModel model(64);
  model.fail_at = 2;
  Request request;
  request.prompt.assign(100, 5);
  request.prompt_logprobs = true;
  request.max_tokens = 0;
  const EchoSeen scored = run_echo(model, {request})[0];
  EXPECT_EQ(scored.outcome.reason, FinishReason::kError);
  EXPECT_EQ(scored.calls, 0);
}

}  // namespace
}  // namespace chimere::engine
