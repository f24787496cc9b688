// A generation has the bits of a cold run, whichever tier provides its prompt's prefix (state
// store, RAM, disk, also from an earlier process).
#include "engine/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/fresh_seed.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/chunking.h"
#include "model/model.h"
#include "support/engine_runs.h"
#include "support/fake_model.h"
#include "support/tiny_model.h"

namespace chimere::engine {
namespace {

using test::FakeTokenizer;

namespace fs = std::filesystem;
using Tokens = std::vector<int32_t>;

const std::vector<uint8_t>& model_file() {
  static const std::vector<uint8_t> file =
      test::make_tiny_model({.seed = 11, .experts = DType::kQ8_0, .mixers = DType::kQ8_0})
          .value()
          .bytes();
  return file;
}

/// A tiny model with an engine and an optional cache, in the state after process start.
class Rig {
 public:
  explicit Rig(std::optional<PrefixCacheOptions> cache_options = {}, int64_t max_tokens = 8192)
      : ops_(kernels::make_cpu_ops(pool_)),
        reader_(gguf::Reader::from_bytes(model_file().data(), model_file().size()).value()),
        model_(model::load_model(*reader_, *ops_, {.max_tokens = max_tokens}).value()) {
    if (cache_options) {
      cache_options->log = [this](const std::string& what) { log.push_back(what); };
      cache = PrefixCache::create(model_->states(), *std::move(cache_options)).value();
    }
    engine = Engine::create(*model_, tokenizer_, {.pool = &pool_, .cache = cache.get()}).value();
  }

  Outcome ask(Request request) { return test::ask(*engine, std::move(request)); }
  /// Runs idle-time work to completion.
  void run_idle() {
    test::run_idle(*engine);
    cache->save_all(std::chrono::steady_clock::time_point::max());
  }
  int64_t pages_in_use() { return model_->states().pages_in_use(); }

  std::vector<std::string> log;

 private:
  ThreadPool pool_{2};
  FakeTokenizer tokenizer_;
  std::unique_ptr<kernels::Ops> ops_;
  std::unique_ptr<gguf::Reader> reader_;
  std::unique_ptr<model::Model> model_;

 public:
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<Engine> engine;
};

Request make_request(Tokens prompt, uint64_t seed = 1) {
  Request r;
  r.prompt = std::move(prompt);
  r.owner = "ann";
  r.sampling.temperature = 1;
  r.sampling.seed = seed;
  r.sampling.logprobs = 1;
  r.max_tokens = 12;
  return r;
}

/// A message: its start token and random tokens.
Tokens message(std::mt19937& random, size_t most) {
  Tokens t = {1};
  for (size_t n = 1 + random() % most; n > 0; --n)
    t.push_back(static_cast<int32_t>(2 + random() % 38));
  return t;
}

void append(Tokens& to, const Tokens& what) { to.insert(to.end(), what.begin(), what.end()); }

Tokens ids(const Outcome& o) {
  Tokens out;
  for (const auto& t : o.tokens) out.push_back(t.id);
  return out;
}

void expect_as_cold(const Outcome& got, const Request& request) {
  Rig cold;
  const Outcome want = cold.ask(request);
  ASSERT_EQ(ids(got), ids(want));
  for (size_t i = 0; i < want.tokens.size(); ++i) {
    ASSERT_EQ(got.tokens[i].logprob, want.tokens[i].logprob);
    ASSERT_EQ(got.tokens[i].entropy, want.tokens[i].entropy);
  }
}

class Cached : public ::testing::Test {
 protected:
  Cached()
      : folder_(::testing::TempDir() + "chimere-cache-" + std::to_string(std::random_device{}())) {}
  ~Cached() override { fs::remove_all(folder_); }

  PrefixCacheOptions disk(int64_t bytes = 1 << 30) const {
    PrefixCacheOptions o;
    o.disk = {folder_, bytes, 0};
    o.weights = state::WeightsHash::known({1, 2});
    return o;
  }
  int64_t bytes_on_disk() const {
    int64_t bytes = 0;
    for (const fs::path& f : files()) bytes += static_cast<int64_t>(fs::file_size(f));
    return bytes;
  }
  Request random_request(size_t tokens) {
    Tokens prompt = {1};
    while (prompt.size() < tokens) prompt.push_back(static_cast<int32_t>(2 + random_() % 38));
    append(prompt, {1, 5});
    return make_request(prompt);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& f : fs::recursive_directory_iterator(folder_))
      if (f.is_regular_file()) out.push_back(f.path());
    return out;
  }

  std::string folder_;
  const unsigned seed_ = fresh_seed();
  std::mt19937 random_{seed_};
};

/// Conversations that continue, branch, are edited and repeated, with few states cached.
TEST_F(Cached, GenerationsAreThoseOfColdRuns) {
  SCOPED_TRACE(seed_);
  uint64_t hits[5] = {};
  for (int round = 0; round < 3; ++round) {
    PrefixCacheOptions options = disk(round == 2 ? 200'000 : 1 << 30);
    options.device_states = round == 0 ? 0 : 2;
    options.memory_bytes = round == 1 ? 400'000 : 0;
    auto rig = std::make_unique<Rig>(options, round == 1 ? 1024 : 8192);
    const Tokens system = message(random_, 200);
    std::vector<Tokens> histories = {system, system};
    for (int turn = 0; turn < 7; ++turn) {
      Tokens& history = histories[random_() % histories.size()];
      if (random_() % 4 == 0 && history.size() > 50) history.resize(history.size() - 40);  // edited
      if (history.size() > 700) history = system;
      append(history, message(random_, 90));
      append(history, {1, 5});
      const Request request = make_request(history, random_());
      const Outcome outcome = rig->ask(request);
      expect_as_cold(outcome, request);
      append(history, ids(outcome));
      if (random_() % 2 == 0) rig->run_idle();
      if (random_() % 3 == 0) {
        const PrefixCacheStats stats = rig->cache->stats();
        for (size_t t = 0; t < 5; ++t) hits[t] += stats.hits[t];
        rig->run_idle();
        rig.reset();  // the process restarts
        rig = std::make_unique<Rig>(options, round == 1 ? 1024 : 8192);
        EXPECT_EQ(rig->cache->stats().rejected_files, 0U);
      }
    }
    EXPECT_LE(rig->cache->stats().disk_bytes, options.disk.max_bytes);
  }
  EXPECT_GT(hits[static_cast<size_t>(CacheTier::kDevice)] +
                hits[static_cast<size_t>(CacheTier::kMemory)] +
                hits[static_cast<size_t>(CacheTier::kDisk)],
            0U);
}

TEST_F(Cached, AConversationContinuesFromEachTier) {
  const Tokens system = message(random_, 150);
  Tokens prompt = system;
  append(prompt, message(random_, 100));
  append(prompt, {1, 5});
  Tokens next = prompt;
  append(next, message(random_, 20));
  const Request request = make_request(next);
  {
    PrefixCacheOptions options = disk();
    options.memory_bytes = 1 << 30;
    Rig rig(options);
    (void)rig.ask(make_request(prompt));
    const Outcome device = rig.ask(request);
    EXPECT_EQ(device.reused_from, CacheTier::kDevice);
    EXPECT_EQ(device.reused_tokens, static_cast<int32_t>(prompt.size()) - 2);
    expect_as_cold(device, request);
    while (rig.cache->evict()) {
    }
    EXPECT_EQ(rig.pages_in_use(), 0);
    const Outcome memory = rig.ask(request);
    EXPECT_EQ(memory.reused_from, CacheTier::kMemory);
    EXPECT_GE(memory.reused_tokens, device.reused_tokens);
    expect_as_cold(memory, request);
    rig.run_idle();
  }
  Rig rig(disk());
  EXPECT_GT(rig.cache->stats().disk_files, 0);
  const Outcome from_disk = rig.ask(request);
  EXPECT_EQ(from_disk.reused_from, CacheTier::kDisk);
  EXPECT_GT(from_disk.reused_tokens, 0);
  expect_as_cold(from_disk, request);
  EXPECT_EQ(rig.cache->stats().hits[static_cast<size_t>(CacheTier::kDisk)], 1U);
}

TEST_F(Cached, ASystemPromptIsReusedWithinItsScopeOnly) {
  Rig rig(PrefixCacheOptions{});
  const Tokens system = message(random_, 400);
  Tokens first = system;
  append(first, {1, 7, 8, 1, 5});
  (void)rig.ask(make_request(first));
  Tokens second = system;
  append(second, {1, 9, 9, 9, 1, 5});
  Request other_owner = make_request(second);
  other_owner.owner = "bob";
  EXPECT_EQ(rig.ask(other_owner).reused_tokens, 0);
  Request namesake = make_request(second);
  namesake.shared_cache = "ann";
  EXPECT_EQ(rig.ask(namesake).reused_tokens, 0);
  namesake.owner = "bob";  // the same shared scope
  EXPECT_GT(rig.ask(namesake).reused_tokens, static_cast<int32_t>(system.size()));
  Request without = make_request(second);
  without.use_cache = false;
  EXPECT_EQ(rig.ask(without).reused_tokens, 0);
  const Request request = make_request(second);
  const Outcome outcome = rig.ask(request);
  EXPECT_EQ(outcome.reused_tokens, static_cast<int32_t>(system.size()));
  expect_as_cold(outcome, request);
}

TEST_F(Cached, GenerationsWarmTheCacheWhileIdle) {
  Rig rig(PrefixCacheOptions{});
  Tokens history = message(random_, 80);
  append(history, {1, 5});
  Request first = make_request(history);
  first.max_tokens = 150;
  first.sampling.logit_bias = {{0, -1000.F}};
  append(history, ids(rig.ask(first)));
  rig.run_idle();
  EXPECT_GT(rig.engine->counters().warmup_tokens, 0);
  const size_t generated = history.size();
  append(history, message(random_, 10));
  append(history, {1, 5});
  const Request next = make_request(history);
  const Outcome outcome = rig.ask(next);
  EXPECT_GE(outcome.reused_tokens, static_cast<int32_t>(generated) - 64);
  expect_as_cold(outcome, next);
}

TEST_F(Cached, DamagedFilesOnlyCostTime) {
  Tokens prompt = message(random_, 300);
  append(prompt, message(random_, 100));
  append(prompt, {1, 5});
  const Request request = make_request(prompt);
  {
    Rig rig(disk());
    (void)rig.ask(request);
    rig.run_idle();
  }
  Rig rig(disk());  // has read the headers, which are intact
  const std::vector<fs::path> stored = files();
  ASSERT_FALSE(stored.empty());
  for (const fs::path& file : stored) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-20, std::ios::end);
    f.write("XXXXXXXX", 8);
  }
  const Outcome outcome = rig.ask(request);
  expect_as_cold(outcome, request);
  EXPECT_GT(rig.cache->stats().rejected_files, 0U);
  EXPECT_FALSE(rig.log.empty());
  rig.run_idle();
  // The damaged files are gone, and recomputed states are stored in their place.
  Rig again(disk());
  EXPECT_EQ(again.cache->stats().rejected_files, 0U);
  expect_as_cold(again.ask(request), request);
}

TEST_F(Cached, AnUnwritableFolderIsHarmless) {
  Rig rig(disk());
  fs::remove_all(folder_);
  const Request request = make_request(Tokens(200, 7));
  const Outcome outcome = rig.ask(request);
  rig.run_idle();
  expect_as_cold(outcome, request);
  EXPECT_EQ(rig.cache->stats().failed_writes, 1U);
  EXPECT_EQ(rig.log.size(), 1U);
  EXPECT_FALSE(rig.cache->save_one()) << "writing is retried only after a pause";
}

TEST_F(Cached, FilesOfAnotherProgramAreFoundWhileItRuns) {
  Rig writer(disk());
  Rig reader(disk());  // the folder is still empty
  const Request request = random_request(400);
  EXPECT_EQ(reader.ask(random_request(400)).reused_tokens, 0);
  (void)writer.ask(request);
  writer.run_idle();
  const Outcome outcome = reader.ask(request);
  EXPECT_EQ(outcome.reused_from, CacheTier::kDisk);
  EXPECT_GT(outcome.reused_tokens, 0);
  expect_as_cold(outcome, request);
}

TEST_F(Cached, FilesThatAnotherProgramRemovedAreForgotten) {
  Rig writer(disk());
  const Request request = random_request(400);
  (void)writer.ask(request);
  writer.run_idle();
  Rig reader(disk());
  EXPECT_GT(reader.cache->stats().disk_files, 0);
  for (const fs::path& f : files()) fs::remove(f);
  const Outcome outcome = reader.ask(request);
  EXPECT_EQ(outcome.reused_tokens, 0);
  expect_as_cold(outcome, request);
  EXPECT_EQ(reader.cache->stats().disk_files, 0);
  EXPECT_EQ(reader.cache->stats().rejected_files, 0U);
  EXPECT_THAT(reader.log, ::testing::IsEmpty());
  // They are written again.
  reader.run_idle();
  EXPECT_GT(reader.cache->stats().disk_files, 0);
  EXPECT_EQ(static_cast<size_t>(reader.cache->stats().disk_files), files().size());
}

TEST_F(Cached, LimitsCountTheFilesOfAllProgramsAndModels) {
  int64_t one = 0;  // bytes on disk after one request
  {
    Rig rig(disk());
    (void)rig.ask(random_request(300));
    rig.run_idle();
    one = bytes_on_disk();
    fs::remove_all(folder_);
  }
  const int64_t limit = 3 * one;
  PrefixCacheOptions other_model = disk(limit);
  other_model.weights = state::WeightsHash::known({3, 4});
  Rig a(disk(limit));
  Rig b(disk(limit));
  Rig c(other_model);
  for (int round = 0; round < 3; ++round) {
    for (Rig* rig : {&a, &b, &c}) {
      (void)rig->ask(random_request(300));
      rig->run_idle();
      EXPECT_LE(bytes_on_disk(), limit);
    }
  }
  EXPECT_GT(bytes_on_disk(), one);
  // Every process finds the state that was used last.
  const Request last = random_request(300);
  (void)a.ask(last);
  a.run_idle();
  EXPECT_EQ(b.ask(last).reused_from, CacheTier::kDisk);
}

TEST_F(Cached, AFolderThatCannotBeWrittenMeansMemoryAlone) {
  std::ofstream(folder_) << "a file where the folder should be";
  Rig rig(disk());
  ASSERT_EQ(rig.log.size(), 1U);
  EXPECT_THAT(rig.log[0],
              ::testing::AllOf(::testing::HasSubstr("memory only"), ::testing::HasSubstr(folder_),
                               ::testing::HasSubstr("--state-folder"),
                               ::testing::HasSubstr("--prefix-disk 0")));
  const Request request = random_request(200);
  (void)rig.ask(request);
  rig.run_idle();
  EXPECT_EQ(rig.ask(request).reused_from, CacheTier::kDevice);
  EXPECT_EQ(rig.cache->stats().failed_writes, 0U);
}

TEST_F(Cached, RequestsDoNotWaitForTheHashOfTheWeights) {
  const std::string model = folder_ + "-model";
  std::ofstream(model) << "weights";
  const Request request = random_request(200);
  std::vector<MappedFile> weights;
  {
    fs::resize_file(model, uintmax_t{1} << 40);  // takes no space and minutes to hash
    weights.push_back(MappedFile::open(model).value());
    PrefixCacheOptions options = disk();
    options.weights = state::WeightsHash::start(weights, {});
    Rig rig(options);
    EXPECT_FALSE(rig.cache->save_one()) << "there is nothing to save";
    rig.cache->save_all(std::chrono::steady_clock::time_point::max());  // does not wait
    expect_as_cold(rig.ask(request), request);
    EXPECT_EQ(rig.ask(request).reused_from, CacheTier::kDevice);
    EXPECT_TRUE(rig.cache->save_one());
    rig.cache->save_all(std::chrono::steady_clock::now());
    EXPECT_THAT(files(), ::testing::IsEmpty());
  }
  fs::resize_file(model, 100);
  weights.clear();
  weights.push_back(MappedFile::open(model).value());
  PrefixCacheOptions options = disk();
  options.weights = state::WeightsHash::start(weights, {});
  {
    Rig rig(options);
    (void)rig.ask(request);
    rig.run_idle();  // waits for the hash
    EXPECT_GT(rig.cache->stats().disk_files, 0);
  }
  {
    Rig rig(options);
    EXPECT_EQ(rig.ask(request).reused_from, CacheTier::kDisk);
  }
  Rig other(disk());  // of other weights
  EXPECT_EQ(other.cache->stats().disk_files, 0);
  EXPECT_EQ(other.ask(request).reused_tokens, 0);
  fs::remove(model);
}

TEST_F(Cached, ALongConversationKeepsADozenStates) {
  PrefixCacheOptions options;
  options.device_states = 1000;
  Rig rig(options);
  Tokens history = message(random_, 100);
  for (int turn = 0; turn < 14; ++turn) {
    append(history, message(random_, 60));
    append(history, {1, 5});
    append(history, ids(rig.ask(make_request(history))));
  }
  EXPECT_LE(rig.cache->stats().device_states, 12);
}

}  // namespace
}  // namespace chimere::engine
