// A block drafter and the prefix cache: a generation that continues from a cached state has the
// drafter's context rows of the cached tokens, and they cost running generations nothing.
#include "engine/speculation/dflash_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/prefix_cache.h"
#include "engine/speculation/drafter.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"
#include "support/engine_runs.h"
#include "support/fake_model.h"
#include "support/tiny_drafter.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using Tokens = std::vector<int32_t>;

/// Rows that the drafter has when it proposes, and rows that the target has computed.
struct Proposed {
  int32_t rows = 0;
  int32_t computed = 0;
};
std::vector<Proposed> proposed;

/// The block drafter, with a record of what it has in each round.
class Watched final : public Drafter {
 public:
  explicit Watched(std::unique_ptr<Drafter> drafter) : drafter_(std::move(drafter)) {}

  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) override {
    return drafter_->start(sampling);
  }
  Status propose(std::span<const DraftTarget> targets) override {
    for (const DraftTarget& t : targets) {
      const auto computed = static_cast<int32_t>(t.history.size()) - 1;
      const auto rows = drafter_->context_rows(*t.state, computed);
      proposed.push_back({rows ? rows->position() : 0, computed});
    }
    return drafter_->propose(targets);
  }
  int32_t most_of_pass() const override { return drafter_->most_of_pass(); }
  std::span<const int32_t> taps() const override { return drafter_->taps(); }
  void observe(std::span<const ObservedRows> rows) override { drafter_->observe(rows); }
  std::optional<state::Checkpoint> context_rows(const DrafterState& state,
                                                int32_t position) const override {
    return drafter_->context_rows(state, position);
  }
  void resume(DrafterState& state, const state::Checkpoint& rows, int32_t position) override {
    drafter_->resume(state, rows, position);
  }

 private:
  std::unique_ptr<Drafter> drafter_;
};

const DrafterType* watched() {
  static const DrafterType type = {
      .name = "watched",
      .mode = "watched",
      .computes = true,
      .expected_rates = kDflashDrafter.expected_rates,
      .create = [](const DrafterModels& models) -> std::unique_ptr<Drafter> {
        return std::make_unique<Watched>(kDflashDrafter.create(models));
      },
  };
  return &type;
}

struct RigOptions {
  std::optional<PrefixCacheOptions> cache = std::nullopt;
  int window = 0;             ///< of the drafter's first layer
  int64_t draft_pages = 256;  ///< of the drafter's states
};

/// A tiny model and a tiny drafter with an engine and an optional prefix cache.
class Rig {
 public:
  explicit Rig(RigOptions options) {
    const test::TinyModel shape = {.seed = 11};
    target_bytes_ = test::make_tiny_model(shape).value().bytes();
    drafter_bytes_ = test::make_tiny_drafter({.window = options.window}, shape).value().bytes();
    target_file_ = gguf::Reader::from_bytes(target_bytes_.data(), target_bytes_.size()).value();
    drafter_file_ = gguf::Reader::from_bytes(drafter_bytes_.data(), drafter_bytes_.size()).value();
    target_ =
        model::load_model(*target_file_, *target_ops_, {.max_tokens = 1 << 14, .max_states = 256})
            .value();
    drafter_ =
        model::load_block_drafter(*drafter_file_, *target_file_, *drafter_ops_,
                                  {.max_tokens = options.draft_pages * kernels::kKvPageTokens})
            .value();
    if (options.cache) {
      options.cache->device_states = 200;
      cache = PrefixCache::create(target_->states(), *std::move(options.cache)).value();
    }
    engine = Engine::create(*target_, tokenizer_,
                            {.pool = &pool_,
                             .cache = cache.get(),
                             .draft_model = drafter_.get(),
                             .drafters = {&type_, 1},
                             .draft_memory_full = [this] { ++times_full; }})
                 .value();
  }

  Outcome ask(Request request) {
    proposed.clear();
    return test::ask(*engine, std::move(request));
  }
  void run_idle() { test::run_idle(*engine); }
  int64_t target_pages() { return target_->states().pages_in_use(); }
  int64_t drafter_pages() {
    const state::StateStore& states = drafter_->states();
    return states.pages_in_use() + states.window_pages_in_use();
  }

 private:
  const DrafterType* type_ = watched();
  test::FakeTokenizer tokenizer_;
  ThreadPool pool_{2};
  std::vector<uint8_t> target_bytes_, drafter_bytes_;
  std::unique_ptr<gguf::Reader> target_file_, drafter_file_;
  std::unique_ptr<kernels::Ops> target_ops_ = kernels::make_cpu_ops(pool_);
  std::unique_ptr<kernels::Ops> drafter_ops_ = kernels::make_cpu_ops(pool_);
  std::unique_ptr<model::Model> target_, drafter_;

 public:
  int times_full = 0;  ///< calls of EngineOptions::draft_memory_full
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<Engine> engine;
};

Request make_request(Tokens prompt, int32_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.owner = "ann";
  r.sampling.temperature = 1;
  r.sampling.logit_bias = {{0, -1000.F}};  // no early end
  r.max_tokens = max_tokens;
  r.speculation = {.drafters = 1, .always = true, .all = true};
  return r;
}

/// A message of `size` tokens with its start token.
Tokens message(std::mt19937& random, size_t size) {
  Tokens t = {1};
  while (t.size() < size) t.push_back(static_cast<int32_t>(2 + random() % 38));
  return t;
}

Tokens ids(const Outcome& o) {
  Tokens out;
  for (const auto& t : o.tokens) out.push_back(t.id);
  return out;
}

/// The prompt of the next turn.
Tokens next_turn(const Request& request, const Outcome& outcome, std::mt19937& random) {
  Tokens next = request.prompt;
  for (const Tokens& part : {ids(outcome), message(random, 20), Tokens{1, 5}}) {
    next.insert(next.end(), part.begin(), part.end());
  }
  return next;
}

/// In each round the drafter has the rows of all but the first `missing` tokens.
void expect_rows_after(int32_t missing) {
  ASSERT_FALSE(proposed.empty());
  for (const Proposed& p : proposed) ASSERT_EQ(p.rows, p.computed - missing);
}

class CachedContextRows : public ::testing::Test {
 protected:
  const unsigned seed_ = fresh_seed();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  std::mt19937 random_{seed_};
};

TEST_F(CachedContextRows, TheNextTurnHasTheRowsOfPromptAndAnswer) {
  for (const int window : {0, 40}) {
    SCOPED_TRACE(window);
    Rig rig({.cache = PrefixCacheOptions{}, .window = window});
    const Request first = make_request(message(random_, 200), 150);
    const Outcome answer = rig.ask(first);
    expect_rows_after(0);
    rig.run_idle();
    const Request second = make_request(next_turn(first, answer, random_), 12);
    const Outcome got = rig.ask(second);
    EXPECT_GT(got.reused_tokens, static_cast<int32_t>(first.prompt.size()));
    expect_rows_after(0);
    Rig cold({.window = window});
    EXPECT_EQ(ids(got), ids(cold.ask(second)));
    expect_rows_after(0);

    EXPECT_GT(rig.drafter_pages(), 0);
    while (rig.cache->evict()) {
    }
    EXPECT_FALSE(rig.cache->evict_context_rows()) << "no tier has the states";
    EXPECT_EQ(rig.drafter_pages(), 0);
  }
}

TEST_F(CachedContextRows, StayWhenTheStateMovesToMemory) {
  PrefixCacheOptions options;
  options.memory_bytes = 1 << 30;
  Rig rig({.cache = options, .window = 40});
  const Request first = make_request(message(random_, 300), 12);
  const Outcome answer = rig.ask(first);
  rig.run_idle();
  while (rig.cache->evict()) {
  }
  EXPECT_EQ(rig.target_pages(), 0);
  EXPECT_GT(rig.drafter_pages(), 0);
  const Outcome got = rig.ask(make_request(next_turn(first, answer, random_), 12));
  EXPECT_EQ(got.reused_from, CacheTier::kMemory);
  EXPECT_GT(got.reused_tokens, 0);
  expect_rows_after(0);
  rig.run_idle();
  rig.engine.reset();
  rig.cache.reset();
  EXPECT_EQ(rig.drafter_pages(), 0);
}

// The drafter's states have memory for about three conversations.
TEST_F(CachedContextRows, GiveTheirMemoryToRunningGenerations) {
  constexpr int kConversations = 8;
  Rig rig({.cache = PrefixCacheOptions{}, .draft_pages = 20});
  std::vector<Request> requests;
  std::vector<Outcome> outcomes;
  for (int i = 0; i < kConversations; ++i) {
    Request& r = requests.emplace_back(make_request(message(random_, 300), 12));
    r.warmup = false;
    outcomes.push_back(rig.ask(r));
    expect_rows_after(0);
  }
  const Outcome newest =
      rig.ask(make_request(next_turn(requests.back(), outcomes.back(), random_), 12));
  EXPECT_GT(newest.reused_tokens, 0);
  expect_rows_after(0);
  const Outcome oldest =
      rig.ask(make_request(next_turn(requests.front(), outcomes.front(), random_), 12));
  EXPECT_GT(oldest.reused_tokens, 0) << "the state stays";
  expect_rows_after(oldest.reused_tokens);
}

TEST_F(CachedContextRows, TheirMissingMemoryIsCountedAndReportedOnce) {
  Rig rig({.draft_pages = 2});
  const auto shortages = [&] { return rig.engine->counters().speculation.memory_shortages; };
  const Outcome small = rig.ask(make_request(message(random_, 20), 12));
  EXPECT_GT(small.speculation.drafted(), 0);
  EXPECT_EQ(small.speculation.memory_shortages, 0);
  EXPECT_EQ(shortages(), 0);
  for (int i = 1; i <= 2; ++i) {
    const Outcome large = rig.ask(make_request(message(random_, 300), 12));
    EXPECT_EQ(large.tokens.size(), 12U);
    EXPECT_EQ(large.speculation.drafted(), 0);
    EXPECT_EQ(large.speculation.memory_shortages, 1);
    EXPECT_EQ(shortages(), i);
    EXPECT_EQ(rig.times_full, 1);
  }
}

TEST_F(CachedContextRows, AreMissingInAStateThatWasMadeWithoutTheDrafter) {
  Rig rig({.cache = PrefixCacheOptions{}});
  Request first = make_request(message(random_, 300), 12);
  first.speculation = Speculation::off();
  const Outcome answer = rig.ask(first);
  rig.run_idle();
  EXPECT_EQ(rig.drafter_pages(), 0);
  const Outcome got = rig.ask(make_request(next_turn(first, answer, random_), 12));
  EXPECT_GT(got.reused_tokens, 0);
  expect_rows_after(got.reused_tokens);
}

TEST_F(CachedContextRows, BelongToTheKeptPrefixOfARequest) {
  Rig rig({});
  Request first = make_request(message(random_, 300), 12);
  first.keep_prefix = true;
  Outcome answer = rig.ask(first);
  ASSERT_TRUE(answer.prefix.has_value());
  Request second = make_request(next_turn(first, answer, random_), 12);
  second.prefix = std::move(answer.prefix);
  const Outcome got = rig.ask(std::move(second));
  EXPECT_EQ(got.reused_from, CacheTier::kRequest);
  EXPECT_GT(got.reused_tokens, 0);
  expect_rows_after(0);
  EXPECT_EQ(rig.drafter_pages(), 0);
}

}  // namespace
}  // namespace chimere::engine
