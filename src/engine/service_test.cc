#include "engine/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "base/fresh_seed.h"
#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::FakeModel;
using test::FakeTokenizer;
using ::testing::HasSubstr;

constexpr auto kLongTime = hours(1);

Request make_request(std::mt19937& random) {
  Request r;
  const size_t n = 1 + random() % 200;
  for (size_t i = 0; i < n; ++i) r.prompt.push_back(static_cast<int32_t>(1 + random() % 39));
  r.owner = std::string(1, static_cast<char>('a' + random() % 3));
  r.sampling.temperature = 1;
  r.sampling.seed = random();
  r.max_tokens = static_cast<int32_t>(1 + random() % 60);
  return r;
}

/// A request that continues until it is cancelled.
Request endless() {
  Request r;
  r.prompt = {5, 6};
  r.sampling.logit_bias = {{0, -1000.F}};
  return r;
}

/// Declared so that the service is destroyed before the model.
struct Server {
  explicit Server(int64_t pages = 1 << 16, ServiceOptions options = {}) : model(pages) {
    options.engine.pool = &pool;
    service = EngineService::create(model, tokenizer, options).value();
  }

  /// A future of the request's outcome.
  std::future<Outcome> ask(Request r) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    r.on_finish = [promise](Outcome o) { promise->set_value(std::move(o)); };
    EXPECT_TRUE(service->submit(std::move(r)).ok());
    return promise->get_future();
  }

  FakeModel model;
  FakeTokenizer tokenizer;
  ThreadPool pool{2};
  std::unique_ptr<EngineService> service;
};

std::vector<int32_t> ids(const Outcome& o) {
  std::vector<int32_t> out;
  for (const auto& t : o.tokens) out.push_back(t.id);
  return out;
}

/// Masks computed on another thread change no generation, and hold none but their own.
TEST(Service, MasksBesideTheEngine) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto trie = constraints::TokenTrie::create(FakeTokenizer(), FakeModel::kVocab);
  const auto requests = [&] {
    std::vector<Request> made;
    for (size_t i = 0; i < 24; ++i) {
      Request& r = made.emplace_back(make_request(random));
      constexpr const char* kGrammars[] = {"root ::= [A-Z]{3,40} \"DONE\"", "root ::= [^Q]*",
                                           "root ::= s\ns ::= s s s | s s | \"A\" | [A-F]"};
      if (i % 4 == 3) continue;
      const constraints::GbnfSpec grammar{kGrammars[i % 4]};
      r.constraint = constraints::Constraint::compile({grammar, {}}, trie).value();
    }
    for (size_t i = 0; i < 8; ++i) made[i].constraint = made[0].constraint;  // share one
    return made;
  };
  const auto run = [&](uint64_t units, bool beside) {
    random.seed(seed);
    ServiceOptions options;
    options.engine.mask_work = units;
    Server server(1 << 16, options);
    std::vector<std::future<Outcome>> futures;
    for (Request& r : requests()) futures.push_back(server.ask(std::move(r)));
    std::vector<std::vector<int32_t>> out;
    for (auto& f : futures) out.push_back(ids(f.get()));
    EXPECT_TRUE(server.service->drain(EngineService::Clock::now() + kLongTime));
    server.service->stop();
    EXPECT_EQ(server.service->stats().engine.masks_beside > 0, beside);
    return out;
  };
  EXPECT_EQ(run(0, true), run(constraints::kWorkPerCall, false));
}

TEST(Service, ManyThreadsGetTheGenerationsOfSoloRuns) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  constexpr size_t kThreads = 4;
  constexpr size_t kEach = 16;
  // All 64 at once would need four times as many pages.
  ServiceOptions options;
  options.engine.max_running = 64;
  options.cache.emplace().memory_bytes = 1 << 20;
  std::vector<Request> requests;
  for (size_t i = 0; i < kThreads * kEach; ++i) requests.push_back(make_request(random));
  size_t pages = 0;
  for (Request& r : requests) {
    r.max_tokens += 100;
    r.sampling.logit_bias = {{0, -1000.F}};
    pages += (r.prompt.size() + static_cast<size_t>(r.max_tokens) + 63) / 64;
  }
  Server server(static_cast<int64_t>(pages) / 4, options);
  // Blocks the engine until all requests are submitted.
  std::promise<void> all_submitted;
  Request first = endless();
  first.max_tokens = 1;
  first.on_token = [submitted = all_submitted.get_future().share()](const TokenEvent&) {
    submitted.wait();
  };
  std::future<Outcome> first_answer = server.ask(std::move(first));
  std::vector<std::future<Outcome>> answers(requests.size());
  {
    std::vector<std::jthread> clients;
    for (size_t t = 0; t < kThreads; ++t) {
      clients.emplace_back([&, t] {
        for (size_t i = t * kEach; i < (t + 1) * kEach; ++i) answers[i] = server.ask(requests[i]);
      });
    }
  }
  all_submitted.set_value();
  EXPECT_EQ(first_answer.get().reason, FinishReason::kLength);
  for (size_t i = 0; i < requests.size(); ++i) {
    Server alone;
    ASSERT_EQ(ids(answers[i].get()), ids(alone.ask(requests[i]).get())) << i;
  }
  EXPECT_TRUE(server.service->drain(EngineService::Clock::now() + kLongTime));
  const ServiceStats stats = server.service->stats();
  EXPECT_EQ(stats.accepted, requests.size() + 1);
  EXPECT_EQ(stats.finished, requests.size() + 1);
  EXPECT_EQ(stats.in_flight, 0);
  EXPECT_EQ(stats.first_token.count, requests.size() + 1);
  EXPECT_EQ(static_cast<int64_t>(stats.first_token.count + stats.inter_token.count),
            stats.engine.generated_tokens);
  EXPECT_GT(stats.engine.evictions, 0);
  EXPECT_EQ(stats.failed + stats.cancelled + stats.refused, 0U);
}

TEST(Service, ACancelledRequestIsGone) {
  Server server;
  std::promise<void> started;
  std::promise<Outcome> ended;
  Request r = endless();
  r.on_token = [&, n = 0](const TokenEvent&) mutable {
    if (++n == 3) started.set_value();
  };
  r.on_finish = [&](Outcome o) { ended.set_value(std::move(o)); };
  const RequestId id = server.service->submit(std::move(r)).value();
  started.get_future().wait();
  server.service->cancel(id);
  server.service->cancel(id + 1000);
  EXPECT_EQ(ended.get_future().get().reason, FinishReason::kCancelled);
  // The next request has the model to itself.
  Request next;
  next.prompt = {7};
  next.max_tokens = 1;
  (void)server.ask(std::move(next)).get();
  EXPECT_TRUE(server.service->drain(EngineService::Clock::now() + kLongTime));
  EXPECT_EQ(server.service->stats().cancelled, 1U);
}

TEST(Service, AFullQueueRejectsUntilARequestEnds) {
  Server server(1 << 16, {.engine = {.max_running = 2}, .max_queue = 3});
  std::vector<RequestId> accepted;
  std::atomic<int> finished = 0;
  for (int i = 0; i < 5; ++i) {
    Request r = endless();
    r.on_finish = [&](const Outcome&) { ++finished; };
    accepted.push_back(server.service->submit(std::move(r)).value());
  }
  const auto refused = server.service->submit(endless());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Error::Code::kOutOfMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("5 requests"));
  server.service->cancel(accepted[4]);
  while (finished == 0) std::this_thread::sleep_for(milliseconds(1));
  while (server.service->stats().in_flight == 5) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(server.service->submit(endless()).ok());
  EXPECT_EQ(server.service->stats().refused, 1U);
  EXPECT_FALSE(server.service->submit({}).ok());  // an empty prompt
}

TEST(Service, DrainingLetsRunningRequestsFinish) {
  Server server;
  Request r;
  r.prompt = {5};
  r.max_tokens = 20;
  auto running = server.ask(r);
  EXPECT_TRUE(server.service->drain(EngineService::Clock::now() + kLongTime));
  EXPECT_NE(running.get().reason, FinishReason::kCancelled);
  const auto late = server.service->submit(r);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Error::Code::kCancelled);
}

TEST(Service, DrainingCancelsAtTheDeadline) {
  Server server;
  auto running = server.ask(endless());
  EXPECT_FALSE(server.service->drain(EngineService::Clock::now()));
  EXPECT_EQ(running.get().reason, FinishReason::kCancelled);
}

TEST(Service, CallbacksMaySubmitAndCancel) {
  Server server;
  std::promise<Outcome> second;
  Request r = endless();
  std::atomic<RequestId> id = 0;
  r.on_token = [&](const TokenEvent&) {
    if (id != 0) server.service->cancel(id);
  };
  r.on_finish = [&](const Outcome&) {
    Request next;
    next.prompt = {8};
    next.max_tokens = 2;
    next.on_finish = [&](Outcome o) { second.set_value(std::move(o)); };
    EXPECT_TRUE(server.service->submit(std::move(next)).ok());
    (void)server.service->stats();
  };
  id = server.service->submit(std::move(r)).value();
  EXPECT_LE(second.get_future().get().tokens.size(), 2U);
}

TEST(Service, WarmsUpWhatTheCallerNames) {
  ServiceOptions options;
  options.cache.emplace().device_states = 8;
  Server server(1 << 16, options);
  const auto until_ended = [&](int64_t warmups) {
    EngineCounters counters;
    do {
      std::this_thread::yield();
      counters = server.service->stats().engine;
    } while (counters.warmups_computed + counters.warmups_cached < warmups ||
             counters.warmups_waiting > 0);
    return counters;
  };
  std::vector<int32_t> prefix;
  for (int32_t i = 0; i < 200; ++i) prefix.push_back(2 + i % 37);
  server.service->warmup("a", {prefix, std::vector<int32_t>(100, 9)});
  EngineCounters counters = until_ended(2);
  EXPECT_EQ(counters.warmups_computed, 2);
  EXPECT_EQ(counters.warmup_tokens, 192 + 64) << "up to the last full chunk";
  server.service->warmup("a", {prefix});
  counters = until_ended(3);
  EXPECT_EQ(counters.warmups_cached, 1);
  EXPECT_EQ(counters.warmup_tokens, 192 + 64);
  for (const auto& [owner, reused] : {std::pair("a", 192), std::pair("b", 0)}) {
    Request r;
    r.owner = owner;
    r.prompt = prefix;
    r.prompt.insert(r.prompt.end(), {3, 4, 5});
    r.max_tokens = 1;
    r.warmup = false;
    EXPECT_EQ(server.ask(std::move(r)).get().reused_tokens, reused) << owner;
  }
  // Tokens that do not exist, and more than the context holds.
  server.service->warmup("a", {std::vector<int32_t>(100, 1 << 20), {}});
  EXPECT_EQ(until_ended(3).warmups_waiting, 0);
}

TEST(Service, StoppingFinishesAllRequests) {
  std::atomic<int> finished = 0;
  {
    Server server(1 << 16, {.engine = {.max_running = 2}});
    for (int i = 0; i < 6; ++i) {
      Request r = endless();
      r.on_finish = [&](const Outcome&) { ++finished; };
      ASSERT_TRUE(server.service->submit(std::move(r)).ok());
    }
  }
  EXPECT_EQ(finished, 6);
}

}  // namespace
}  // namespace chimere::engine
