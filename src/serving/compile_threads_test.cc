// Where a server compiles constraints: on threads that neither the engine nor plain requests need.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "constraints/token_trie.h"
#include "serving/api.h"
#include "serving/model_registry.h"
#include "support/fake_model.h"

namespace chimere::serving {
namespace {

class ThreadSet {
 public:
  void add_this() {
    const std::scoped_lock lock(mutex_);
    ids_.insert(std::this_thread::get_id());
  }
  std::set<std::thread::id> ids() const {
    const std::scoped_lock lock(mutex_);
    return ids_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::thread::id> ids_;
};

/// The threads on which a model computes and compiles.
struct Observed {
  ThreadSet engine;
  ThreadSet compiling;
  std::counting_semaphore<> begun{0};  ///< compilations
  std::promise<void> gate;             ///< they wait for it
  std::shared_future<void> open = gate.get_future().share();
};

class ObservedModel final : public test::FakeModel {
 public:
  explicit ObservedModel(Observed& observed) : FakeModel(64), observed_(observed) {}
  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    observed_.engine.add_this();
    return FakeModel::forward(plan);
  }

 private:
  Observed& observed_;
};

class TestModel final : public ResidentModel {
 public:
  explicit TestModel(Observed& observed)
      : fake_(observed),
        service_(engine::EngineService::create(fake_, tokenizer_, {}).value()),
        served_{.tokenizer = tokenizer_, .service = *service_} {
    served_.id = "m";
    served_.prompt_template = text::PromptTemplate::create(
        tokenizer_, "{% for m in messages %}{{ m.content }}{% endfor %}");
    served_.make_request = [](const Settings&, const std::string& owner,
                              std::span<const std::string>) -> Result<engine::Request> {
      engine::Request request;
      request.owner = owner;
      request.max_tokens = 4;
      return request;
    };
    const auto trie = constraints::TokenTrie::create(tokenizer_, test::FakeModel::kVocab);
    served_.compile_constraint = [&observed, trie](const constraints::ConstraintSpec& spec,
                                                   const std::function<void()>& when_slow) {
      observed.compiling.add_this();
      observed.begun.release();
      observed.open.wait();
      return constraints::Constraint::compile(spec, trie, when_slow);
    };
  }
  ~TestModel() override { service_->stop(); }
  const ServedModel* text() const override { return &served_; }
  int64_t bytes() const override { return 1; }
  void drain(std::chrono::steady_clock::time_point deadline) override { service_->drain(deadline); }

 private:
  ObservedModel fake_;
  test::FakeTokenizer tokenizer_;
  std::unique_ptr<engine::EngineService> service_;
  ServedModel served_;
};

/// A request to the API, without a socket.
class Client {
 public:
  Client(Api& api, const std::string& path, const std::string& body) {
    const auto responded = std::make_shared<std::promise<void>>();
    responded_ = responded->get_future();
    stream_ = std::make_shared<ResponseStream>(
        [responded](ResponseStream::Urgency) { responded->set_value(); });
    HttpRequest request;
    request.head.method = "POST";
    request.head.path = path;
    request.body = body;
    api.handle(std::move(request), stream_);
  }
  bool responded() const {
    return responded_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  HttpResponse response() {
    responded_.wait();
    return *stream_->take().head;
  }

 private:
  std::future<void> responded_;
  std::shared_ptr<ResponseStream> stream_;
};

TEST(CompileThreads, AreNeitherTheEnginesNorThoseOfPlainRequests) {
  Observed observed;
  ModelRegistry registry(RegistryOptions{});
  ModelSource source;
  source.about.id = "m";
  source.load = [&](const ModelSource::Progress&) -> Result<std::unique_ptr<ResidentModel>> {
    return std::unique_ptr<ResidentModel>(std::make_unique<TestModel>(observed));
  };
  std::vector<ModelSource> sources;
  sources.push_back(std::move(source));
  registry.reload(std::move(sources));
  ASSERT_TRUE(registry.preload("m").ok());
  ApiOptions options;
  options.log = [](const LogLine&) {};
  Api api(options, registry, nullptr);

  struct Case {
    const char* path;
    const char* body;
  };
  constexpr Case kConstrained[] = {
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "AB"}], "guided_regex": "[A-F]{2}"})"},
      {"/v1/completions", R"({"prompt": "AB", "grammar": "root ::= [A-F]{3}"})"},
      {"/api/chat", R"({"model": "m", "stream": false, "format": {"const": []},
                        "messages": [{"role": "user", "content": "AB"}]})"},
      {"/api/generate", R"({"model": "m", "stream": false, "raw": true, "prompt": "AB",
                            "format": {"const": []}})"},
  };
  std::vector<Client> constrained;
  for (const auto& [path, body] : kConstrained) constrained.emplace_back(api, path, body);
  // Two compilations are in progress, as many as there are threads of any kind.
  observed.begun.acquire();
  observed.begun.acquire();
  Client plain(api, "/v1/completions", R"({"prompt": "AB"})");
  const HttpResponse quick = plain.response();
  EXPECT_EQ(quick.status, 200) << quick.body;
  for (const Client& client : constrained) EXPECT_FALSE(client.responded());

  observed.gate.set_value();
  for (Client& client : constrained) {
    const HttpResponse response = client.response();
    EXPECT_EQ(response.status, 200) << response.body;
  }
  api.stop();
  registry.stop();
  const std::set<std::thread::id> engine = observed.engine.ids();
  EXPECT_EQ(engine.size(), 1U);
  EXPECT_FALSE(observed.compiling.ids().empty());
  for (const std::thread::id id : observed.compiling.ids()) {
    EXPECT_FALSE(engine.contains(id));
    EXPECT_NE(id, std::this_thread::get_id());  // which a connection would have
  }
}

}  // namespace
}  // namespace chimere::serving
