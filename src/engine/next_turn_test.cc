// The next turn of a conversation of 4,000 tokens, with every family that has recurrent layers:
// nearly all of the prompt comes from the prefix cache, and the answer is that of a cold run.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "kernels/api.h"
#include "model/model.h"
#include "support/engine_runs.h"
#include "support/fake_model.h"
#include "support/family_model.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using Tokens = std::vector<int32_t>;

/// bamba files have the architecture granitehybrid.
constexpr const char* kRecurrent[] = {"mamba",          "mamba2",        "nemotron_h",
                                      "nemotron_h_moe", "granitehybrid", "falcon-h1",
                                      "jamba",          "lfm2",          "lfm2moe"};
constexpr int kVocabulary = 64;
constexpr size_t kConversation = 4000;
/// What must come from the cache.
constexpr double kShare = 0.95;

/// An engine on a model of its own, with a prefix cache or without.
class Server {
 public:
  Server(const std::vector<uint8_t>& file, bool cached)
      : ops_(kernels::make_cpu_ops(pool_)),
        reader_(gguf::Reader::from_bytes(file.data(), file.size()).value()),
        model_(model::load_model(*reader_, *ops_, {.max_tokens = 16384}).value()) {
    if (cached) cache_ = PrefixCache::create(model_->states(), {}).value();
    engine_ = Engine::create(*model_, tokenizer_, {.pool = &pool_, .cache = cache_.get()}).value();
  }

  Outcome ask(Request request) { return test::ask(*engine_, std::move(request)); }
  void run_idle() { test::run_idle(*engine_); }

 private:
  ThreadPool pool_{2};
  test::FakeTokenizer tokenizer_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<gguf::Reader> reader_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<Engine> engine_;
};

Request make_request(const Tokens& prompt, uint64_t seed) {
  Request r;
  r.prompt = prompt;
  r.owner = "ann";
  r.sampling.temperature = 1;
  r.sampling.seed = seed;
  r.sampling.logprobs = 1;
  r.sampling.logit_bias = {{0, -1000.F}};  // no early end
  r.max_tokens = 24;
  return r;
}

class NextTurn : public testing::TestWithParam<const char*> {
 protected:
  NextTurn() {
    test::TinyModel m;
    m.architecture = GetParam();
    m.seed = seed_;
    m.n_vocab = kVocabulary;
    m.n_layers = 3;
    m.attention_interval = 3;
    m.n_embd = 32;
    m.head_dim = 16;
    m.experts = m.mixers = DType::kQ8_0;
    gguf::Writer writer = test::make_family_model(m).value();
    writer.set_u32(m.architecture + ".context_length", 16384);
    file_ = writer.bytes();
  }
  void add_message(Tokens& to, size_t length) {
    to.push_back(1);
    for (size_t i = 1; i < length; ++i) to.push_back(static_cast<int32_t>(2 + rng_() % 38));
  }

  const unsigned seed_ = fresh_seed();
  std::mt19937 rng_{seed_};
  std::vector<uint8_t> file_;
};

TEST_P(NextTurn, ContinuesFromTheCacheWithTheBitsOfAColdRun) {
  SCOPED_TRACE(seed_);
  Server server(file_, /*cached=*/true);
  Tokens history;
  while (history.size() < kConversation) add_message(history, 50 + rng_() % 200);
  for (uint64_t turn = 0; turn < 3; ++turn) {
    const Request request = make_request(history, seed_ + turn);
    const Outcome got = server.ask(request);
    const Outcome want = Server(file_, /*cached=*/false).ask(request);
    ASSERT_EQ(got.tokens.size(), want.tokens.size()) << want.error.message << got.error.message;
    ASSERT_EQ(want.tokens.size(), 24U);
    for (size_t i = 0; i < want.tokens.size(); ++i) {
      ASSERT_EQ(got.tokens[i].id, want.tokens[i].id) << "turn " << turn << ", token " << i;
      ASSERT_EQ(got.tokens[i].logprob, want.tokens[i].logprob);
      ASSERT_EQ(got.tokens[i].entropy, want.tokens[i].entropy);
    }
    if (turn > 0) {
      EXPECT_GE(got.reused_tokens, kShare * static_cast<double>(history.size())) << "turn " << turn;
      EXPECT_EQ(got.reused_from, CacheTier::kDevice);
    }
    if (turn == 1) server.run_idle();  // the generation warms the cache up
    for (const sampling::Sampled& token : want.tokens) history.push_back(token.id);
    add_message(history, 40 + rng_() % 60);
  }
}

// Drafts looked up in the prompt are verified, most are rejected, and the answer stays the same.
TEST_P(NextTurn, DraftsDoNotChangeTheAnswer) {
  SCOPED_TRACE(seed_);
  Tokens history;
  Tokens phrase;
  add_message(phrase, 12);
  for (int i = 0; i < 12; ++i) history.insert(history.end(), phrase.begin(), phrase.end());
  Request request = make_request(history, seed_);
  request.max_tokens = 60;
  // Few tokens, so that the generation repeats itself now and then.
  request.sampling.logit_bias = {{2, 40.F}, {3, 40.F}, {4, 40.F}};
  const Outcome want = Server(file_, /*cached=*/false).ask(request);
  request.speculation = {.drafters = ~uint32_t{0}, .always = true};
  const Outcome got = Server(file_, /*cached=*/true).ask(request);
  EXPECT_GT(got.speculation.drafted(), got.speculation.accepted());
  ASSERT_EQ(got.tokens.size(), want.tokens.size());
  for (size_t i = 0; i < want.tokens.size(); ++i) {
    ASSERT_EQ(got.tokens[i].id, want.tokens[i].id) << "token " << i;
    ASSERT_EQ(got.tokens[i].logprob, want.tokens[i].logprob);
  }
}

INSTANTIATE_TEST_SUITE_P(All, NextTurn, testing::ValuesIn(kRecurrent), [](const auto& family) {
  std::string name = family.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace chimere::engine
