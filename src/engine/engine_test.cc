#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

#include "base/fresh_seed.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using test::FakeModel;
using test::FakeTokenizer;
using ::testing::HasSubstr;

/// What the caller of a request observes.
struct Seen {
  std::string streamed;
  int events = 0;
  int finished = 0;
  Outcome outcome;

  void listen(Request& request) {
    request.on_token = [this](const TokenEvent& e) {
      ++events;
      streamed += e.text;
    };
    request.on_finish = [this](Outcome o) {
      ++finished;
      outcome = std::move(o);
    };
  }
};

std::unique_ptr<Engine> make_engine(model::Model& model, const text::Tokenizer& tokenizer,
                                    EngineOptions options = {}) {
  return Engine::create(model, tokenizer, options).value();
}

/// Grammars over the letters of FakeTokenizer: with text that is certain, with choices among few
/// and many tokens, and one that allows nearly everything.
constexpr const char* kGrammars[] = {
    "root ::= \"ABCABCABCABCABC\" [A-Z]{3,9} \"DONE\"",
    "root ::= (\"A\" | \"BB\" root \"C\")*",
    "root ::= [A-Fa-f]{1,50} (\"XYZ\" | \"XYY\")",
    "root ::= [^Q]*",
};

std::shared_ptr<constraints::Constraint> constraint_of(const char* grammar) {
  static const auto trie = constraints::TokenTrie::create(FakeTokenizer(), FakeModel::kVocab);
  return constraints::Constraint::compile({constraints::GbnfSpec{grammar}, {}}, trie).value();
}

Request random_request(std::mt19937& random, size_t longest_prompt = 300) {
  Request r;
  const size_t n = 1 + random() % longest_prompt;
  for (size_t i = 0; i < n; ++i) {
    r.prompt.push_back(
        random() % 40 == 0 ? 1 : static_cast<int32_t>(2 + random() % (FakeModel::kVocab - 2)));
  }
  r.sampling.temperature = random() % 4 == 0 ? 0.F : 1.F;
  r.sampling.top_k = random() % 2 ? 10 : 0;
  r.sampling.repeat_penalty = random() % 3 ? 1.F : 1.2F;
  r.sampling.seed = random();
  r.sampling.logprobs = random() % 3 ? 3 : -1;
  if (random() % 4 == 0) r.sampling.logit_bias = {{5, 2.5F}, {17, -4}, {8, -INFINITY}};
  r.sampling.dry.multiplier = random() % 4 ? 0 : 0.8F;
  r.sampling.dry.allowed_length = 1;
  r.max_tokens = static_cast<int32_t>(1 + random() % 100);
  if (random() % 3 == 0) r.stop = {"AB", "Q"};
  if (random() % 3 == 0) r.constraint = constraint_of(kGrammars[random() % std::size(kGrammars)]);
  r.speculation =
      std::vector{Speculation::off(), Speculation::automatic(), *Speculation::named("mtp"),
                  *Speculation::named("ngram")}[random() % 4];
  return r;
}

/// Runs the request alone, without drafts and with whole rows of logits.
Seen run_alone(Request request) {
  request.speculation = Speculation::off();
  FakeModel model(64);
  model.on_gpu = false;
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  Seen seen;
  seen.listen(request);
  EXPECT_TRUE(engine->submit(std::move(request)).ok());
  while (engine->step()) {
  }
  EXPECT_EQ(model.states().pages_in_use(), 0);
  return seen;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.text, b.text);
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    ASSERT_EQ(a.tokens[i].id, b.tokens[i].id);
    ASSERT_EQ(a.tokens[i].logprob, b.tokens[i].logprob);
    ASSERT_EQ(a.tokens[i].entropy, b.tokens[i].entropy);
    ASSERT_EQ(a.tokens[i].top.size(), b.tokens[i].top.size());
    for (size_t k = 0; k < a.tokens[i].top.size(); ++k) {
      ASSERT_EQ(a.tokens[i].top[k].id, b.tokens[i].top[k].id);
      ASSERT_EQ(a.tokens[i].top[k].value, b.tokens[i].top[k].value);
    }
  }
}

TEST(Engine, ConstrainedOutputIsInTheLanguage) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int complete = 0;
  for (int round = 0; round < 60; ++round) {
    Request request = random_request(random, 20);
    const char* const grammar = kGrammars[random() % std::size(kGrammars)];
    request.constraint = constraint_of(grammar);
    request.stop.clear();
    SCOPED_TRACE(grammar);
    FakeModel model(64);
    model.on_gpu = random() % 2 == 0;
    const FakeTokenizer tokenizer;
    const auto engine = make_engine(model, tokenizer);
    Seen seen;
    seen.listen(request);
    ASSERT_TRUE(engine->submit(request).ok());
    while (engine->step()) {
    }
    const Outcome& o = seen.outcome;
    ASSERT_NE(o.reason, FinishReason::kError) << o.error.message;
    constraints::Matcher matcher = request.constraint->matcher();
    for (const sampling::Sampled& token : o.tokens) ASSERT_TRUE(matcher.accept(token.id));
    if (o.reason == FinishReason::kStop) {
      EXPECT_TRUE(matcher.finished() || o.tokens.back().id == 0);
      ++complete;
    }
    expect_same(o, run_alone(request).outcome);
  }
  EXPECT_GT(complete, 10);
}

/// One step gives many tokens, and they are those of the tokenizer.
TEST(Engine, CertainTextTakesFewSteps) {
  FakeModel model(64);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  Request request;
  request.prompt = {5, 6, 7};
  request.constraint = constraint_of("root ::= [AB] \"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"");
  Seen seen;
  seen.listen(request);
  ASSERT_TRUE(engine->submit(std::move(request)).ok());
  while (engine->step()) {
  }
  EXPECT_EQ(seen.outcome.reason, FinishReason::kStop);
  EXPECT_EQ(seen.outcome.text.substr(1), "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  EXPECT_LE(model.steps, 5U) << "27 tokens";
  EXPECT_EQ(seen.outcome.speculation.drafted(), seen.outcome.speculation.accepted());
  ASSERT_EQ(seen.outcome.speculation.sources.size(), 1U);
  EXPECT_EQ(seen.outcome.speculation.sources[0].source, kConstraintSource);
}

TEST(Engine, BatchingChangesNothing) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    // Few pages, slots and rows in some rounds: requests wait, are suspended and resumed.
    const int64_t pages = std::vector<int64_t>{8, 14, 64}[random() % 3];
    const int64_t slots = std::vector<int64_t>{5, 64}[random() % 2];
    FakeModel model(pages, slots);
    model.interleave_supported = random() % 2 == 0;
    model.overlap_supported = random() % 2 == 0;
    const FakeTokenizer tokenizer;
    const auto running = static_cast<int32_t>(1 + random() % 12);
    const auto engine =
        make_engine(model, tokenizer,
                    {.max_step_rows = running + 64 + static_cast<int32_t>(random() % 200),
                     .max_running = running,
                     .max_itl_ratio = random() % 2 == 0 ? 1.0 : 2.0});
    const size_t n = 1 + random() % 12;
    std::vector<Request> requests;
    std::vector<Seen> seen(n);
    for (size_t i = 0; i < n; ++i) requests.push_back(random_request(random));
    for (size_t i = 0; i < n; ++i) {
      Request r = requests[i];
      seen[i].listen(r);
      ASSERT_TRUE(engine->submit(std::move(r)).ok());
      for (size_t steps = random() % 5; steps > 0; --steps) engine->step();
    }
    for (int steps = 0; engine->step(); ++steps)
      ASSERT_LT(steps, 100000) << "the engine makes no progress";
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(seen[i].finished, 1);
      const Outcome& o = seen[i].outcome;
      EXPECT_EQ(seen[i].streamed + o.text_tail, o.text);
      EXPECT_EQ(seen[i].events, static_cast<int>(o.tokens.size()));
      expect_same(o, run_alone(requests[i]).outcome);
    }
    EXPECT_EQ(model.states().pages_in_use(), 0);
    EXPECT_EQ(model.states().slots_in_use(), 0);
    EXPECT_EQ(model.states().pending_rows_in_use(), 0);
  }
}

TEST(Engine, PartialLogitsGiveTheSameGeneration) {
  for (const int32_t top_k : {0, 5, 6}) {
    for (const Speculation mode : {Speculation::off(), *Speculation::named("mtp")}) {
      FakeModel model(64);
      const FakeTokenizer tokenizer;
      const auto engine = make_engine(model, tokenizer);
      Seen whole;
      Seen largest;
      for (Seen* seen : {&whole, &largest}) {
        Request r;
        r.prompt.assign(10, 7);
        r.max_tokens = 60;
        r.speculation = mode;
        r.sampling.top_k = top_k;
        r.sampling.temperature = top_k > 0 ? 1.F : 0.F;
        r.sampling.presence_penalty = top_k == 6 ? 0.5F : 0.F;
        r.sampling.penalty_window = 10;
        r.sampling.seed = 3;
        model.on_gpu = seen == &largest;
        seen->listen(r);
        ASSERT_TRUE(engine->submit(std::move(r)).ok());
      }
      while (engine->step()) {
      }
      ASSERT_EQ(whole.outcome.tokens.size(), largest.outcome.tokens.size());
      for (size_t i = 0; i < whole.outcome.tokens.size(); ++i) {
        EXPECT_EQ(whole.outcome.tokens[i].id, largest.outcome.tokens[i].id);
      }
      EXPECT_GE(model.partial_logit_rows, largest.outcome.tokens.size());
    }
  }
}

/// Reasoning control with partial logits: the same tokens, log-probabilities and decisions as with
/// whole rows, which are read only where a token is replaced.
TEST(Engine, ReasoningControlNeedsPartialLogitsOnly) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  size_t rows = 0;
  size_t rows_read = 0;
  for (int round = 0; round < 40; ++round) {
    Request request = random_request(random, 40);
    request.speculation = Speculation::off();
    request.constraint.reset();
    request.sampling.top_k = static_cast<int32_t>(1 + random() % 8);
    request.max_tokens = 100;
    ThinkingParams thinking;
    thinking.budget = static_cast<int32_t>(10 + random() % 60);
    thinking.least = static_cast<int32_t>(random() % 30);
    thinking.certain = 0.1 + 0.01 * static_cast<double>(random() % 40);
    thinking.uncertain = 0.3;
    thinking.open = 2;
    thinking.close = 3;
    thinking.forced_closing = {30, 31};
    thinking.after_close = {32};
    thinking.resume = {33, 34};
    thinking.loop_breaker = {35};
    thinking.suppressed = {10, 20, 36};
    request.prompt.push_back(thinking.open);
    request.thinking = thinking;
    const Outcome expected = run_alone(request).outcome;
    FakeModel model(64);
    const FakeTokenizer tokenizer;
    const auto engine = make_engine(model, tokenizer);
    const bool reports = request.sampling.logprobs >= 0;
    Seen seen;
    seen.listen(request);
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
    while (engine->step()) {
    }
    expect_same(seen.outcome, expected);
    EXPECT_EQ(seen.outcome.thinking.tokens, expected.thinking.tokens);
    EXPECT_EQ(seen.outcome.thinking.end, expected.thinking.end);
    EXPECT_EQ(seen.outcome.thinking.suppressed_tokens, expected.thinking.suppressed_tokens);
    EXPECT_GT(model.partial_logit_rows, 0U);
    if (reports) continue;  // the log-probability of a forced token is that of its whole row
    rows += model.partial_logit_rows;
    rows_read += model.rows_read;
  }
  EXPECT_LT(4 * rows_read, rows);
}

/// Rows that partial logits do not decide are read in full, those of drafts included.
TEST(Engine, UndecidedPartialLogitsChangeNothing) {
  for (const bool drafts : {false, true}) {
    for (const float top_p : {1.F, 0.5F, 0.99F}) {
      Request request;
      request.prompt = {5, 9, 17, 4};
      request.max_tokens = 60;
      request.sampling.temperature = 1;
      request.sampling.top_p = top_p;
      request.sampling.min_p = top_p == 1 ? 0.02F : 0;
      request.sampling.presence_penalty = top_p == 1 ? 1.F : 0.F;
      request.sampling.logprobs = 2;
      request.sampling.seed = 5;
      request.sampling.logit_bias = {};
      if (top_p == 1) request.sampling.logit_bias = {{0, -INFINITY}};
      const Outcome expected = run_alone(request).outcome;
      FakeModel model(64);
      const FakeTokenizer tokenizer;
      const auto engine = make_engine(model, tokenizer);
      request.speculation = drafts ? *Speculation::named("mtp") : Speculation::off();
      Seen seen;
      seen.listen(request);
      ASSERT_TRUE(engine->submit(std::move(request)).ok());
      while (engine->step()) {
      }
      expect_same(seen.outcome, expected);
      EXPECT_GT(model.partial_logit_rows, 0U);
      EXPECT_TRUE(top_p != 0.99F || model.rows_read > 0);
    }
  }
}

TEST(Engine, AFullStoreSuspendsTheYoungestAndResumesIt) {
  FakeModel model(4);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  std::mt19937 random(3);
  std::vector<Request> requests(2);
  std::vector<Seen> seen(2);
  for (size_t i = 0; i < 2; ++i) {
    requests[i].prompt.assign(60, static_cast<int32_t>(5 + i));
    requests[i].sampling.logprobs = 0;
    requests[i].max_tokens = 150;
    requests[i].sampling.temperature = 1;
    requests[i].sampling.seed = 11 + i;
  }
  // Seeds with which neither ends early; both then need 4 pages, and the store has 4.
  for (auto& r : requests) {
    while (run_alone(r).outcome.tokens.size() < 150) ++r.sampling.seed;
  }
  for (size_t i = 0; i < 2; ++i) {
    Request r = requests[i];
    seen[i].listen(r);
    ASSERT_TRUE(engine->submit(std::move(r)).ok());
  }
  while (engine->step()) {
  }
  EXPECT_EQ(model.max_sequences, 2U);
  for (size_t i = 0; i < 2; ++i) expect_same(seen[i].outcome, run_alone(requests[i]).outcome);
}

TEST(Engine, PromptsTakeTurnsAndDecodingHasPriority) {
  FakeModel model(1000);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer, {.max_step_rows = 4 + 64, .max_running = 4});
  Request decoding;
  decoding.prompt = {7};
  decoding.max_tokens = 1000;
  decoding.sampling.temperature = 1;
  while (run_alone(decoding).outcome.tokens.size() < 40) ++decoding.sampling.seed;
  Seen seen;
  seen.listen(decoding);
  ASSERT_TRUE(engine->submit(std::move(decoding)).ok());
  engine->step();
  std::vector<Seen> readers(2);
  for (Seen& r : readers) {
    Request request;
    request.prompt.assign(64 * 8, 9);
    request.max_tokens = 1;
    r.listen(request);
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
  }
  for (int i = 1; i <= 16; ++i) {
    EXPECT_EQ(readers[0].finished + readers[1].finished, i == 16 ? 1 : 0);
    engine->step();
    EXPECT_EQ(seen.events, 1 + i) << "a generation waited for a prompt";
  }
  EXPECT_EQ(readers[0].finished + readers[1].finished, 2);
  EXPECT_LE(model.max_rows, 68U);
}

TEST(Engine, DecodeStepsAreInterleavedWithAChunk) {
  FakeModel model(1000);
  model.interleave_supported = true;
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer,
                                  {.max_step_rows = 4 + 64, .max_running = 4, .max_itl_ratio = 1});
  std::vector<Request> requests(4);
  std::vector<Seen> seen(4);
  for (size_t i = 0; i < 4; ++i) {
    requests[i].prompt.assign(i < 3 ? 7 : 64 * 8, static_cast<int32_t>(3 + i));
    // The first request ends during the prefill of the last one.
    requests[i].max_tokens = i == 0 ? 5 : 100;
    requests[i].sampling.temperature = 1;
    requests[i].sampling.logprobs = 0;
    while (run_alone(requests[i]).outcome.tokens.size() < (i == 0 ? 5 : 60)) {
      ++requests[i].sampling.seed;
    }
    Request r = requests[i];
    r.speculation = i == 1 ? *Speculation::named("mtp") : Speculation::off();
    seen[i].listen(r);
    ASSERT_TRUE(engine->submit(std::move(r)).ok());
    if (i == 2) engine->step();
  }
  const size_t before = model.interleaved;
  EXPECT_EQ(seen[2].events, 1);
  for (int chunk = 1; chunk <= 8; ++chunk) {
    engine->step();
    EXPECT_EQ(seen[2].events, 1 + 2 * chunk) << "the fake model interleaves twice per step";
    EXPECT_EQ(seen[3].events, chunk == 8 ? 1 : 0);
  }
  EXPECT_EQ(model.interleaved - before, 16U);
  EXPECT_EQ(seen[0].finished, 1);
  EXPECT_EQ(engine->counters().batch.count, 16U);
  EXPECT_EQ(model.max_rows, 64U);
  while (engine->step()) {
  }
  for (size_t i = 0; i < 4; ++i) expect_same(seen[i].outcome, run_alone(requests[i]).outcome);
}

/// Interleaved steps may fail, too.
TEST(Engine, AFailureDuringInterleavingReachesTheAffectedRequests) {
  for (const size_t fail_at : {3, 4, 5}) {
    FakeModel model(1000);
    model.interleave_supported = true;
    model.fail_at = fail_at;
    const FakeTokenizer tokenizer;
    const auto engine = make_engine(model, tokenizer, {.max_itl_ratio = 1});
    std::vector<Seen> seen(2);
    for (size_t i = 0; i < 2; ++i) {
      Request r;
      r.prompt.assign(i == 0 ? 3 : 100, 9);
      r.max_tokens = i == 0 ? 2 : 1;
      r.sampling.temperature = 1;
      while (run_alone(r).outcome.reason != FinishReason::kLength) ++r.sampling.seed;
      seen[i].listen(r);
      ASSERT_TRUE(engine->submit(std::move(r)).ok());
      engine->step();
    }
    while (engine->step()) {
    }
    EXPECT_EQ(seen[0].finished, 1);
    EXPECT_EQ(seen[1].finished, 1);
    EXPECT_EQ(seen[0].outcome.reason == FinishReason::kError, fail_at == 3);
    EXPECT_EQ(model.states().pages_in_use(), 0);
  }
}

TEST(Engine, CancelledRequestsEndAndOthersContinue) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    FakeModel model(20);
    const FakeTokenizer tokenizer;
    const auto engine = make_engine(model, tokenizer);
    std::vector<Request> requests;
    std::vector<Seen> seen(6);
    std::map<size_t, RequestId> ids;
    for (size_t i = 0; i < seen.size(); ++i) {
      requests.push_back(random_request(random));
      Request r = requests[i];
      seen[i].listen(r);
      ids[i] = engine->submit(std::move(r)).value();
    }
    std::vector<bool> cancelled(seen.size());
    for (int step = 0; engine->step(); ++step) {
      const size_t i = random() % seen.size();
      if (random() % 4 == 0 && i % 2 == 0) cancelled[i] = engine->cancel(ids[i]) || cancelled[i];
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      ASSERT_EQ(seen[i].finished, 1);
      if (cancelled[i]) {
        EXPECT_EQ(seen[i].outcome.reason, FinishReason::kCancelled);
        const Outcome alone = run_alone(requests[i]).outcome;
        EXPECT_EQ(alone.text.substr(0, seen[i].streamed.size()), seen[i].streamed);
      } else {
        expect_same(seen[i].outcome, run_alone(requests[i]).outcome);
      }
      EXPECT_FALSE(engine->cancel(ids[i]));
    }
    EXPECT_EQ(model.states().pages_in_use(), 0);
  }
}

TEST(Engine, CallbacksMayCancelAndSubmit) {
  FakeModel model(20);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  Request request;
  request.prompt = {5, 6};
  request.max_tokens = 50;
  RequestId id = 0;
  int tokens = 0;
  FinishReason reason = FinishReason::kError;
  Seen second;
  request.on_token = [&](const TokenEvent&) { EXPECT_TRUE(++tokens != 3 || engine->cancel(id)); };
  request.on_finish = [&](const Outcome& o) {
    reason = o.reason;
    Request next;
    next.prompt = {8};
    next.max_tokens = 2;
    second.listen(next);
    EXPECT_TRUE(engine->submit(std::move(next)).ok());
  };
  id = engine->submit(std::move(request)).value();
  while (engine->step()) {
  }
  EXPECT_EQ(reason, FinishReason::kCancelled);
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(second.finished, 1);
}

TEST(Engine, PrefixGivesTheSameBits) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int reused = 0;
  for (int round = 0; round < 50; ++round) {
    FakeModel model(64);
    const FakeTokenizer tokenizer;
    const auto engine = make_engine(model, tokenizer);
    Request first = random_request(random);
    first.keep_prefix = true;
    const std::vector<int32_t> prompt = first.prompt;
    Seen seen;
    seen.listen(first);
    ASSERT_TRUE(engine->submit(std::move(first)).ok());
    while (engine->step()) {
    }
    // The same conversation, continued.
    Request second = random_request(random);
    second.prompt.insert(second.prompt.begin(), prompt.begin(), prompt.end());
    const Outcome alone = run_alone(second).outcome;
    second.prefix = seen.outcome.prefix;
    second.keep_prefix = true;
    Seen again;
    again.listen(second);
    ASSERT_TRUE(engine->submit(std::move(second)).ok());
    while (engine->step()) {
    }
    expect_same(again.outcome, alone);
    EXPECT_EQ(again.outcome.reused_tokens,
              seen.outcome.prefix ? static_cast<int32_t>(seen.outcome.prefix->tokens.size()) : 0);
    reused += again.outcome.reused_tokens;
    EXPECT_GE(again.outcome.prefix ? again.outcome.prefix->tokens.size() : 0,
              seen.outcome.prefix ? seen.outcome.prefix->tokens.size() : 0);

    // Another conversation: the prefix must not be used.
    Request other = random_request(random);
    other.prefix = seen.outcome.prefix;
    if (other.prefix && other.prompt.size() > other.prefix->tokens.size())
      other.prompt[0] = prompt[0] == 2 ? 3 : 2;
    Request plain = other;
    plain.prefix.reset();
    Seen apart;
    apart.listen(other);
    ASSERT_TRUE(engine->submit(std::move(other)).ok());
    while (engine->step()) {
    }
    expect_same(apart.outcome, run_alone(plain).outcome);
    EXPECT_EQ(apart.outcome.reused_tokens, 0);
  }
  EXPECT_GT(reused, 0);
}

TEST(Engine, StopStringsAreNeverReturned) {
  int stopped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Request request;
    request.prompt = {4};
    request.max_tokens = 60;
    request.sampling.temperature = 1;
    request.sampling.top_k = 3;
    request.sampling.seed = seed;
    request.stop = {"BC", "XY", "Q"};
    const Seen seen = run_alone(request);
    for (const std::string& stop : request.stop)
      EXPECT_EQ(seen.outcome.text.find(stop), std::string::npos);
    EXPECT_EQ(seen.streamed + seen.outcome.text_tail, seen.outcome.text);
    stopped += seen.outcome.reason == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 50);
}

TEST(Engine, ContextAndLengthEndAGeneration) {
  FakeModel model(64);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer, {.context = 30});
  Request request;
  request.prompt.assign(20, 3);
  request.sampling.temperature = 1;
  const auto reason = [&](int32_t max_tokens) {
    for (request.sampling.seed = 0;; ++request.sampling.seed) {
      Request r = request;
      r.max_tokens = max_tokens;
      Seen seen;
      seen.listen(r);
      EXPECT_TRUE(engine->submit(std::move(r)).ok());
      while (engine->step()) {
      }
      if (seen.outcome.reason != FinishReason::kStop)
        return std::pair(seen.outcome.reason, seen.outcome.tokens.size());
    }
  };
  EXPECT_EQ(reason(-1), std::pair(FinishReason::kContextFull, size_t{10}));
  EXPECT_EQ(reason(5), std::pair(FinishReason::kLength, size_t{5}));
}

TEST(Engine, RejectsInvalidRequests) {
  FakeModel model(2);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  EXPECT_EQ(engine->context(), 128);
  const auto complaint = [&](auto change) {
    Request r;
    r.prompt = {3};
    change(r);
    const auto id = engine->submit(std::move(r));
    return id.ok() ? "accepted" : id.error().message;
  };
  EXPECT_THAT(complaint([](Request& r) { r.prompt.clear(); }), HasSubstr("empty"));
  EXPECT_THAT(complaint([](Request& r) { r.prompt.assign(128, 3); }),
              HasSubstr("context holds 128"));
  EXPECT_THAT(complaint([](Request& r) { r.prompt = {40}; }), HasSubstr("Token 40"));
  EXPECT_THAT(complaint([](Request& r) { r.prompt = {-1}; }), HasSubstr("Token -1"));
  EXPECT_THAT(complaint([](Request& r) { r.sampling.top_p = 2; }), HasSubstr("top-p"));
  EXPECT_THAT(complaint([](Request& r) { r.max_tokens = 0; }), HasSubstr("at least one token"));
  EXPECT_THAT(complaint([](Request& r) { r.taps = {1, 4}; }), HasSubstr("has 4 layers"));
  EXPECT_THAT(complaint([](Request& r) { r.taps = {-1}; }), HasSubstr("Layer -1"));
  EXPECT_THAT(complaint([](Request& r) { r.taps = {2, 2}; }), HasSubstr("2 comes after 2"));
  EXPECT_THAT(complaint([](Request& r) { r.taps = {3, 0}; }), HasSubstr("0 comes after 3"));
  EXPECT_FALSE(engine->step());
  EXPECT_FALSE(Engine::create(model, tokenizer, {.max_step_rows = 64, .max_running = 1}).ok());
  EXPECT_FALSE(Engine::create(model, tokenizer, {.max_running = 0}).ok());
}

TEST(Engine, AFailingModelIsReportedOnceAndTheEngineContinues) {
  FakeModel model(64);
  const FakeTokenizer tokenizer;
  const auto engine = make_engine(model, tokenizer);
  model.fail_at = 3;
  Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = 20;
  request.sampling.temperature = 1;
  while (run_alone(request).outcome.tokens.size() < 10) ++request.sampling.seed;
  const Request copy = request;
  Seen seen;
  seen.listen(request);
  ASSERT_TRUE(engine->submit(std::move(request)).ok());
  while (engine->step()) {
  }
  EXPECT_EQ(seen.finished, 1);
  EXPECT_EQ(seen.outcome.reason, FinishReason::kError);
  EXPECT_EQ(seen.outcome.error.message, "The file was cut.");
  EXPECT_EQ(seen.outcome.tokens.size(), 2U);
  EXPECT_EQ(model.states().pages_in_use(), 0);
  Request retry = copy;
  Seen again;
  again.listen(retry);
  ASSERT_TRUE(engine->submit(std::move(retry)).ok());
  while (engine->step()) {
  }
  expect_same(again.outcome, run_alone(copy).outcome);
}

}  // namespace
}  // namespace chimere::engine
