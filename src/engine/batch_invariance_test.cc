// Batch invariance with a real forward pass: a request's tokens and log-probabilities have the same
// bits alone and in a batch.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "support/fake_model.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using test::FakeTokenizer;

/// The fake tokenizer fits any vocabulary of at least 40 tokens.
struct Machine {
  explicit Machine(const std::vector<uint8_t>& file, int threads, int64_t max_tokens)
      : pool(threads),
        ops(kernels::make_cpu_ops(pool)),
        reader(gguf::Reader::from_bytes(file.data(), file.size()).value()) {
    model = model::load_model(*reader, *ops, {.max_tokens = max_tokens, .drafts = true}).value();
  }

  ThreadPool pool;
  std::unique_ptr<kernels::Ops> ops;
  std::unique_ptr<gguf::Reader> reader;
  std::unique_ptr<model::Model> model;
};

std::vector<Outcome> generate(Machine& machine, const std::vector<Request>& requests,
                              EngineOptions options) {
  const FakeTokenizer tokenizer;
  const auto engine = Engine::create(*machine.model, tokenizer, options).value();
  std::vector<Outcome> outcomes(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    Request r = requests[i];
    r.on_finish = [&outcomes, i](Outcome o) { outcomes[i] = std::move(o); };
    EXPECT_TRUE(engine->submit(std::move(r)).ok());
    engine->step();  // requests arrive one by one
  }
  while (engine->step()) {
  }
  return outcomes;
}

TEST(BatchInvariance, ARealModelsGenerationsHaveTheSameBits) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto file =
      test::make_tiny_model(
          {.seed = seed, .n_mtp_layers = 1, .experts = DType::kQ8_0, .mixers = DType::kQ8_0})
          .value()
          .bytes();
  std::vector<Request> requests(7);
  for (Request& r : requests) {
    const size_t n = 1 + random() % 200;
    for (size_t i = 0; i < n; ++i)
      r.prompt.push_back(random() % 30 == 0 ? 1 : static_cast<int32_t>(2 + random() % 62));
    r.sampling.temperature = 1;
    r.sampling.seed = random();
    r.sampling.logprobs = 2;
    r.max_tokens = 30;
    r.speculation =
        std::vector{Speculation::off(), Speculation::automatic(), *Speculation::named("mtp"),
                    *Speculation::named("ngram")}[random() % 4];
  }
  // 640 positions: requests wait for pages and may be suspended and resumed.
  Machine together(file, 2, 640);
  const auto batched = generate(
      together, requests,
      {.max_step_rows = 150, .max_running = 6, .max_itl_ratio = random() % 2 == 0 ? 1.0 : 2.0});
  for (size_t i = 0; i < requests.size(); ++i) {
    Machine alone(file, 1, 4096);
    requests[i].speculation = Speculation::off();
    const auto solo = generate(alone, {requests[i]}, {});
    ASSERT_EQ(batched[i].reason, solo[0].reason) << batched[i].error.message;
    ASSERT_EQ(batched[i].tokens.size(), solo[0].tokens.size());
    ASSERT_FALSE(solo[0].tokens.empty());
    for (size_t t = 0; t < solo[0].tokens.size(); ++t) {
      const sampling::Sampled& a = batched[i].tokens[t];
      const sampling::Sampled& b = solo[0].tokens[t];
      ASSERT_EQ(a.id, b.id);
      ASSERT_EQ(a.logprob, b.logprob);
      ASSERT_EQ(a.entropy, b.entropy);
      ASSERT_EQ(a.top[1].value, b.top[1].value);
    }
  }
}

}  // namespace
}  // namespace chimere::engine
