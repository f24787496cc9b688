// Locks that a streamed token takes on its way from the engine to the socket.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/wake_descriptor.h"
#include "serving/generation_job.h"
#include "serving/history/detached_answers.h"
#include "serving/wake_queue.h"
#include "support/fake_model.h"

namespace chimere::serving {
namespace {

std::atomic<int64_t> locks = 0;
/// Those of the engine's thread, which the models below mark.
std::atomic<int64_t> engine_locks = 0;
thread_local bool on_engine = false;

/// Steps take long enough for the connection to send every token by itself.
class SlowModel : public test::FakeModel {
 public:
  using FakeModel::FakeModel;
  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    return FakeModel::forward(plan);
  }
};

class MarkingModel : public test::FakeModel {
 public:
  using FakeModel::FakeModel;
  Result<model::StepResult> forward(const model::StepPlan& plan) override {
    on_engine = true;
    return FakeModel::forward(plan);
  }
};

class EndlessTokenizer : public test::FakeTokenizer {
 public:
  bool is_end_of_generation(int32_t /*id*/) const override { return false; }
};

/// The connection's side of a response, without a socket.
class Connection : public Listener {
 public:
  void on_wake() override { woken = true; }
  bool woken = false;
};

TEST(TokenLocks, AtMostTwoFromTheSampledTokenToTheSocket) {
  constexpr int kTokens = 1500;
  SlowModel fake(64);
  const EndlessTokenizer tokenizer;
  const auto service = engine::EngineService::create(fake, tokenizer, {}).value();
  const ServedModel model{.tokenizer = tokenizer, .service = *service};

  WakeQueue wakes(WakeDescriptor::create().value());
  const auto connection = std::make_shared<Connection>();
  const auto stream = std::make_shared<ResponseStream>(
      [&](ResponseStream::Urgency urgency) { wakes.add(connection, urgency); });
  GenerationSpec spec;
  spec.writer = protocol::openai_writer({"chatcmpl-1", 0, "m", "f", {}}, true, false);
  spec.stream = true;
  engine::Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = kTokens;
  request.sampling.temperature = 1;
  request.sampling.top_k = 8;
  spec.choices.emplace_back().request = std::move(request);
  GenerationReport report;
  const auto job = std::make_shared<GenerationJob>(model, stream, std::move(spec),
                                                   [&](const GenerationReport& r) { report = r; });
  Mutex::set_observer([] { ++locks; });
  job->start();

  std::string text;
  int64_t events = 0;
  int64_t pieces = 0;
  int64_t events_before = 0;
  int64_t locks_before = 0;
  int64_t events_after = 0;
  int64_t locks_after = 0;
  for (bool ended = false; !ended;) {
    (void)wakes.notify_listeners();
    if (!std::exchange(connection->woken, false)) {
      std::this_thread::yield();
      continue;
    }
    const ResponseStream::Piece piece = stream->take();
    ended = piece.ended;
    text += piece.bytes;
    ++pieces;
    for (size_t at = 0; (at = piece.bytes.find("data: ", at)) != std::string::npos; ++at) ++events;
    if (events < 100) {
      events_before = events;
      locks_before = locks;
    } else if (!ended) {
      events_after = events;
      locks_after = locks;
    }
  }
  Mutex::set_observer(nullptr);
  service->stop();  // its thread may still be in a callback
  EXPECT_NE(text.find("[DONE]"), std::string::npos);
  EXPECT_EQ(report.usage.completion_tokens, kTokens);
  EXPECT_GT(pieces, 10);
  ASSERT_GT(events_after, events_before + 50);
  const double per_token = static_cast<double>(locks_after - locks_before) /
                           static_cast<double>(events_after - events_before);
  RecordProperty("locks_per_token", std::to_string(per_token));
  EXPECT_GT(per_token, 0);
  EXPECT_LE(per_token, 2);
}

TEST(TokenLocks, ADetachedGenerationTakesNoneOnTheEnginesThread) {
  constexpr int kTokens = 1500;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "chimere_token_locks";
  std::filesystem::remove_all(folder);
  const auto store = ConversationStore::open((folder / "history.db").string()).value();
  ASSERT_TRUE(store->put("", "c", {}).ok());
  StoredMessage message;
  message.id = "m";
  message.role = "assistant";
  ASSERT_TRUE(store->put_messages("", "c", {message}).ok());
  DetachedAnswers answers(*store);
  const auto client = std::make_shared<ResponseStream>([](ResponseStream::Urgency /*urgency*/) {});
  std::shared_ptr<DetachedAnswer> answer;
  ASSERT_FALSE(answers.begin({"", "c", "m"}, "m", client, answer));
  client->abandon();

  MarkingModel fake(64);
  const EndlessTokenizer tokenizer;
  const auto service = engine::EngineService::create(fake, tokenizer, {}).value();
  const ServedModel model{.tokenizer = tokenizer, .service = *service};
  answer->write_with(protocol::openai_writer({"chatcmpl-1", 0, "m", "f", {}}, true, false));
  GenerationSpec spec;
  spec.writer = answer;
  spec.stream = true;
  engine::Request request;
  request.prompt = {5, 6, 7};
  request.max_tokens = kTokens;
  spec.choices.emplace_back().request = std::move(request);
  GenerationReport report;
  const auto job = std::make_shared<GenerationJob>(model, answer->stream(), std::move(spec),
                                                   [&](const GenerationReport& r) { report = r; });
  Mutex::set_observer([] { engine_locks += on_engine ? 1 : 0; });
  job->start();
  while (answer->state() != DetachedAnswer::State::kStored) std::this_thread::yield();
  Mutex::set_observer(nullptr);
  service->stop();
  EXPECT_EQ(report.usage.completion_tokens, kTokens);
  // At the end it takes some; what its tokens need would be a multiple of their number.
  EXPECT_LT(engine_locks, kTokens / 2);
  EXPECT_EQ(store->message("", "c", "m").value().content, answer->message().content);
  answers.stop();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace chimere::serving
