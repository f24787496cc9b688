// Fills a prefix cache on disk until it is killed, or compares its states with cold runs.
//
//   prefix_cache_worker write FOLDER SEED  prints "ready", then "saved" after each conversation
//   prefix_cache_worker check FOLDER       prints "hits rejected"; fails if an answer is another
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/fake_model.h"

namespace {

using namespace chimere::engine;  // NOLINT(google-build-using-namespace): a program of one file
using chimere::test::FakeModel;
using chimere::test::FakeTokenizer;

constexpr uint32_t kConversations = 40;

/// Conversation number i; those with the same i % 5 share a prefix.
Request make_request(uint32_t i) {
  Request r;
  const auto add = [&r](uint32_t seed, size_t n) {
    std::mt19937 random(seed);
    r.prompt.push_back(1);
    while (n-- > 0) r.prompt.push_back(static_cast<int32_t>(2 + random() % 38));
  };
  add(i % 5, 150);
  add(100 + i, 20 + i * 7);
  r.prompt.insert(r.prompt.end(), {1, 5});
  r.max_tokens = 5;
  return r;
}

struct Rig {
  explicit Rig(const std::string& folder) {
    if (!folder.empty()) {
      PrefixCacheOptions options;
      options.disk = {folder, 1 << 26, 0};
      options.weights = chimere::state::WeightsHash::known({1, 2});
      auto made = PrefixCache::create(model.states(), options);
      if (!made.ok()) {
        std::fprintf(stderr, "%s\n", made.error().message.c_str());
        std::exit(2);
      }
      cache = std::move(made).value();
    }
    engine = Engine::create(model, tokenizer, {.cache = cache.get()}).value();
  }

  std::vector<int32_t> ask(uint32_t i) {
    std::vector<int32_t> ids;
    Request r = make_request(i);
    r.on_finish = [&ids](const Outcome& o) {
      for (const auto& t : o.tokens) ids.push_back(t.id);
    };
    (void)engine->submit(std::move(r)).value();
    while (!engine->idle()) engine->step();
    return ids;
  }

  FakeModel model{4096, 512};
  FakeTokenizer tokenizer;
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<Engine> engine;
};

int check(const std::string& folder) {
  Rig rig(folder);
  for (uint32_t i = 0; i < kConversations; ++i) {
    if (rig.ask(i) != Rig("").ask(i)) {
      std::fprintf(stderr, "conversation %u has another answer than a cold run\n", i);
      return 1;
    }
  }
  const PrefixCacheStats stats = rig.cache->stats();
  std::printf("%llu %llu\n",
              static_cast<unsigned long long>(stats.hits[static_cast<size_t>(CacheTier::kDisk)]),
              static_cast<unsigned long long>(stats.rejected_files));
  return 0;
}

[[noreturn]] void write(const std::string& folder, uint32_t seed) {
  Rig rig(folder);
  std::mt19937 random(seed);
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    (void)rig.ask(static_cast<uint32_t>(random() % kConversations));
    rig.cache->save_all(std::chrono::steady_clock::time_point::max());
    std::puts("saved");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "check" && argc == 3) return check(argv[2]);
  if (mode == "write" && argc == 4) write(argv[2], static_cast<uint32_t>(std::atoi(argv[3])));
  std::fprintf(stderr, "usage: prefix_cache_worker write FOLDER SEED | check FOLDER\n");
  return 2;
}
