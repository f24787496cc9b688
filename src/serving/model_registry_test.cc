#include "serving/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fresh_seed.h"
#include "support/fake_model.h"

namespace chimere::serving {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using State = ModelStatus::State;

constexpr int64_t kBytes = 100;    ///< of each model
constexpr int64_t kContext = 512;  ///< its pages hold it

/// Counts the bytes of the models that exist.
struct Memory {
  std::atomic<int64_t> now = 0;
  std::atomic<int64_t> most = 0;
  void take(int64_t bytes) {
    const int64_t after = now += bytes;
    int64_t before = most;
    while (before < after && !most.compare_exchange_weak(before, after)) {
    }
  }
};

/// A model with an engine, whose id is in its fingerprint.
class TestModel final : public ResidentModel {
 public:
  TestModel(const std::string& id, Memory& memory)
      : memory_(memory),
        fake_(8),
        service_(engine::EngineService::create(fake_, tokenizer_, {}).value()),
        served_{.tokenizer = tokenizer_, .service = *service_} {
    served_.id = id;
    memory_.take(kBytes);
  }
  ~TestModel() override {
    service_->stop();
    memory_.now -= kBytes;
  }
  const ServedModel* text() const override { return &served_; }
  int64_t bytes() const override { return kBytes; }
  void drain(std::chrono::steady_clock::time_point deadline) override { service_->drain(deadline); }

 private:
  Memory& memory_;
  test::FakeModel fake_;
  test::FakeTokenizer tokenizer_;
  std::unique_ptr<engine::EngineService> service_;
  ServedModel served_;
};

struct Answer {
  ModelLease lease;
  std::optional<protocol::ApiError> error;
  std::string code() const { return error ? std::string(error->code.name()) : ""; }
};

class ModelRegistryTest : public ::testing::Test {
 protected:
  ModelSource source(const std::string& id, const std::string& fingerprint = "1") {
    ModelSource out;
    out.about.id = id;
    out.about.aliases = {id + "-alias"};
    out.about.memory_bytes = kBytes;
    out.fingerprint = fingerprint;
    out.load =
        [this, id, fingerprint](
            const ModelSource::Progress& progress) -> Result<std::unique_ptr<ResidentModel>> {
      progress(0.5);
      {
        const std::scoped_lock lock(mutex_);
        if (failing_.contains(id)) return io_error("/secret/path cannot be read.");
        if (models_at_once_ > 0 && memory_.now >= models_at_once_ * kBytes) {
          return out_of_memory("The GPU is full.");
        }
      }
      if (gate_.valid()) gate_.wait();
      return std::unique_ptr<ResidentModel>(
          std::make_unique<TestModel>(id + (fingerprint == "1" ? "" : fingerprint), memory_));
    };
    return out;
  }

  void start(int64_t budget, const std::vector<std::string>& ids, int64_t max_waiting = 100) {
    RegistryOptions options;
    options.memory_bytes = budget * kBytes;
    options.max_waiting = max_waiting;
    registry_ = std::make_unique<ModelRegistry>(options);
    std::vector<ModelSource> sources;
    for (const std::string& id : ids) sources.push_back(source(id));
    registry_->reload(std::move(sources));
  }

  static std::shared_ptr<ResponseStream> stream() {
    return std::make_shared<ResponseStream>([](ResponseStream::Urgency) {});
  }
  std::future<Answer> ask(const std::string& name,
                          const std::shared_ptr<ResponseStream>& to = stream()) {
    const auto promise = std::make_shared<std::promise<Answer>>();
    registry_->use(name, ModelKind::kText, to,
                   [promise](ModelLease lease, std::optional<protocol::ApiError> error) {
                     promise->set_value({std::move(lease), std::move(error)});
                   });
    return promise->get_future();
  }
  State state(const std::string& id) const { return registry_->find(id, ModelKind::kText)->state; }
  void wait_for(const std::string& id, State wanted) const {
    while (state(id) != wanted) std::this_thread::yield();
  }
  static bool pending(std::future<Answer>& answer) {
    return answer.wait_for(seconds(0)) == std::future_status::timeout;
  }

  Memory memory_;
  std::mutex mutex_;
  std::set<std::string> failing_;
  int64_t models_at_once_ = 0;     ///< beyond it, loading fails with kOutOfMemory; 0: never
  std::shared_future<void> gate_;  ///< loads wait for it, if it is valid
  std::unique_ptr<ModelRegistry> registry_;
};

TEST_F(ModelRegistryTest, LoadsOnDemandAndEvictsTheLeastRecentlyUsed) {
  start(2, {"a", "b", "c"});
  EXPECT_EQ(state("a"), State::kAbsent);
  EXPECT_EQ(ask("a").get().lease.text->id, "a");
  EXPECT_EQ(ask("b-alias").get().lease.text->id, "b");
  EXPECT_EQ(ask("a:latest").get().lease.text->id, "a");  // b is now the least recently used one
  EXPECT_EQ(ask("c").get().lease.text->id, "c");
  EXPECT_EQ(state("a"), State::kReady);
  EXPECT_EQ(state("b"), State::kAbsent);
  EXPECT_EQ(state("c"), State::kReady);
  const auto b = registry_->find("b", ModelKind::kText);
  EXPECT_EQ(b->loads, 1U);
  EXPECT_EQ(b->evictions, 1U);
  EXPECT_EQ(memory_.most, 2 * kBytes);
}

TEST_F(ModelRegistryTest, AModelInUseIsEvictedWhenItsLastRequestIsFinished) {
  start(2, {"a", "b", "c"});
  Answer a = ask("a").get();
  Answer b = ask("b").get();
  auto c = ask("c");
  wait_for("a", State::kEvicting);
  EXPECT_TRUE(pending(c));
  auto again = ask("a");  // gets no lease, or c would never be loaded
  EXPECT_TRUE(pending(again));
  EXPECT_EQ(a.lease.text->service.context(), kContext);  // it is still there
  a.lease = {};
  EXPECT_EQ(c.get().lease.text->id, "c");
  // c is not used any more: it goes, not b.
  EXPECT_EQ(again.get().lease.text->id, "a");
  EXPECT_EQ(state("b"), State::kReady);
  EXPECT_EQ(memory_.most, 2 * kBytes);
}

TEST_F(ModelRegistryTest, ARequestWhoseClientHasGoneNeedsNoModel) {
  start(1, {"a", "b"});
  Answer a = ask("a").get();
  const auto client = stream();
  auto b = ask("b", client);
  wait_for("a", State::kEvicting);
  auto waiting = ask("a");
  client->abandon();
  EXPECT_EQ(b.get().code(), "cancelled");
  EXPECT_EQ(waiting.get().lease.text->id, "a");  // a need not be evicted any more
  EXPECT_EQ(registry_->find("a", ModelKind::kText)->loads, 1U);
  // A client that has gone before.
  auto gone = ask("b", client);
  EXPECT_EQ(gone.get().code(), "cancelled");
}

TEST_F(ModelRegistryTest, AFailureIsToldToAllThatWait) {
  start(0, {"a", "b"});
  std::promise<void> open;
  gate_ = open.get_future().share();
  auto first = ask("a");
  wait_for("a", State::kLoading);
  {
    const std::scoped_lock lock(mutex_);
    failing_.insert("b");
  }
  auto one = ask("b");
  auto two = ask("b");
  open.set_value();
  const Answer failed = one.get();
  EXPECT_EQ(failed.code(), "model_unavailable");
  EXPECT_EQ(failed.error->status(), 503);
  EXPECT_THAT(failed.error->message, Not(HasSubstr("secret")));
  EXPECT_EQ(two.get().code(), "model_unavailable");
  EXPECT_EQ(first.get().lease.text->id, "a");
  {
    const std::scoped_lock lock(mutex_);
    failing_.clear();
  }
  EXPECT_EQ(ask("b").get().lease.text->id, "b");  // tried again
  EXPECT_GE(registry_->find("b", ModelKind::kText)->failures, 1U);
}

TEST_F(ModelRegistryTest, WithoutMemoryOthersAreEvictedFirst) {
  models_at_once_ = 1;
  start(0, {"a", "b"});
  EXPECT_EQ(ask("a").get().lease.text->id, "a");
  EXPECT_EQ(ask("b").get().lease.text->id, "b");
  EXPECT_EQ(state("a"), State::kAbsent);
  Answer b = ask("b").get();
  auto a = ask("a");  // waits for the request on b
  wait_for("b", State::kEvicting);
  b.lease = {};
  EXPECT_EQ(a.get().lease.text->id, "a");
}

TEST_F(ModelRegistryTest, AModelBeyondTheBudgetIsRefused) {
  start(1, {"a"});
  ModelSource big = source("big");
  big.about.memory_bytes = 2 * kBytes;
  std::vector<ModelSource> sources;
  sources.push_back(source("a"));
  sources.push_back(std::move(big));
  registry_->reload(std::move(sources));
  EXPECT_EQ(ask("big").get().code(), "model_unavailable");
  EXPECT_FALSE(registry_->preload("big").ok());
  EXPECT_EQ(ask("a").get().lease.text->id, "a");
}

TEST_F(ModelRegistryTest, FewRequestsMayWait) {
  start(1, {"a", "b"}, 2);
  Answer a = ask("a").get();
  auto one = ask("b");
  auto two = ask("b");
  const Answer three = ask("b").get();
  EXPECT_EQ(three.code(), "queue_full");
  EXPECT_EQ(three.error->status(), 429);
  a.lease = {};
  EXPECT_EQ(one.get().lease.text->id, "b");
  EXPECT_EQ(two.get().lease.text->id, "b");
}

TEST_F(ModelRegistryTest, NamesAreNoPaths) {
  start(0, {"a", "b"});
  for (const char* name : {"../a", "/a", "a/", "a.gguf", "./a", "A", "a:other", "c"}) {
    const Answer answer = ask(name).get();
    EXPECT_EQ(answer.code(), "model_not_found") << name;
    EXPECT_THAT(answer.error->message, HasSubstr("it has 'a' and 'b'."));
  }
  EXPECT_EQ(ask("").get().lease.text->id, "a");
  EXPECT_EQ(registry_->check("a", ModelKind::kEmbedding)->code.name(), "model_does_not_embed");
}

TEST_F(ModelRegistryTest, AnUnusedModelIsEvictedAfterItsTime) {
  start(0, {"a"});
  Answer a = ask("a").get();
  registry_->keep_alive("a", seconds(0));
  EXPECT_EQ(state("a"), State::kReady);
  a.lease = {};
  wait_for("a", State::kAbsent);
  EXPECT_EQ(memory_.now, 0);
  registry_->keep_alive("a", seconds(3600));
  EXPECT_TRUE(ask("a").get().lease.text != nullptr);
  while (registry_->find("a", ModelKind::kText)->requests > 0) std::this_thread::yield();
  EXPECT_TRUE(registry_->find("a", ModelKind::kText)->expires);
  registry_->keep_alive("a", std::nullopt);
  EXPECT_FALSE(registry_->find("a", ModelKind::kText)->expires);
}

TEST_F(ModelRegistryTest, AReplacedModelFinishesItsRequests) {
  start(0, {"a", "b", "c"});
  Answer old_a = ask("a").get();
  Answer b = ask("b").get();
  Answer c = ask("c").get();
  std::vector<ModelSource> sources;
  sources.push_back(source("c"));
  sources.push_back(source("a", "2"));
  registry_->reload(std::move(sources));
  EXPECT_EQ(ask("a").get().lease.text->id, "a2");
  EXPECT_EQ(old_a.lease.text->id, "a");
  EXPECT_EQ(ask("b").get().code(), "model_not_found");
  EXPECT_EQ(b.lease.text->service.context(), kContext);
  EXPECT_EQ(ask("").get().lease.text->id, "c");  // the first one now
  EXPECT_EQ(registry_->find("c", ModelKind::kText)->loads, 1U);
  EXPECT_EQ(memory_.now, 4 * kBytes);
  old_a.lease = {};
  b.lease = {};
  while (memory_.now != 2 * kBytes) std::this_thread::yield();
}

TEST_F(ModelRegistryTest, StoppingAnswersEveryRequest) {
  start(1, {"a", "b"});
  Answer a = ask("a").get();
  auto b = ask("b");
  registry_->drain(std::chrono::steady_clock::now());
  EXPECT_EQ(b.get().code(), "stopping");
  EXPECT_EQ(ask("a").get().code(), "stopping");
  a.lease = {};
  registry_->stop();
  EXPECT_EQ(memory_.now, 0);
}

TEST_F(ModelRegistryTest, RandomUse) {
  std::mt19937 random(fresh_seed());
  const std::vector<std::string> ids = {"a", "b", "c", "d", "e"};
  start(2, ids, 1000);
  std::atomic<int> wrong = 0;
  std::atomic<int> cancelled = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < 6; ++t) {
    clients.emplace_back([&, seed = random()] {
      std::mt19937 mine(static_cast<uint32_t>(seed));
      for (int i = 0; i < 80; ++i) {
        const std::string& id = ids[mine() % ids.size()];
        const auto client = stream();
        auto answer = ask(id, client);
        const bool leaves = mine() % 8 == 0;
        if (leaves) client->abandon();
        const Answer got = answer.get();
        if (got.error) {
          cancelled += got.code() == "cancelled" && leaves;
          wrong += got.code() != "cancelled" || !leaves;
          continue;
        }
        for (unsigned n = mine() % 64; n > 0; --n) std::this_thread::yield();
        wrong += got.lease.text->id != id || got.lease.text->service.context() != kContext;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(memory_.most, 2 * kBytes);
  uint64_t loads = 0;
  for (const ModelStatus& model : registry_->list()) loads += model.loads;
  EXPECT_GT(loads, 20U);
  registry_->stop();
  EXPECT_EQ(memory_.now, 0);
}

}  // namespace
}  // namespace chimere::serving
