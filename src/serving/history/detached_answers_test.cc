#include "serving/history/detached_answers.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/generation_writer.h"
#include "protocol/history.h"
#include "serving/history/event_buffer.h"

namespace chimere::serving {
namespace {

TEST(EventBuffer, NumbersEventsAndReadsFromAnyOfThem) {
  EventBuffer buffer(1000);
  EXPECT_TRUE(buffer.has_all_after(0));
  EXPECT_FALSE(buffer.has_all_after(1));
  buffer.add("data: a\n\ndata: b\n\n");
  buffer.add("data: c\n\n");
  EXPECT_EQ(buffer.last(), 3);
  std::string all;
  EXPECT_EQ(buffer.read(0, 3, 1000, all), 3);
  EXPECT_EQ(all, "id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: c\n\n");
  std::string rest;
  EXPECT_EQ(buffer.read(1, 2, 1000, rest), 2);
  EXPECT_EQ(rest, "id: 2\ndata: b\n\n");
  EXPECT_EQ(buffer.read(2, 2, 1000, rest), 2);  // nothing is between
  std::string piece;
  EXPECT_EQ(buffer.read(0, 3, 1, piece), 1);  // at least one
  EXPECT_TRUE(buffer.has_all_after(3));
  EXPECT_FALSE(buffer.has_all_after(4));
  EXPECT_FALSE(buffer.has_all_after(-1));
}

TEST(EventBuffer, DropsTheOldest) {
  const std::string event = "data: 0123456789\n\n";  // 24 or 25 bytes with its number
  EventBuffer buffer(60);
  for (int i = 0; i < 20; ++i) buffer.add(event);
  EXPECT_EQ(buffer.last(), 20);
  EXPECT_FALSE(buffer.has_all_after(17));
  EXPECT_TRUE(buffer.has_all_after(18));
  std::string out;
  EXPECT_EQ(buffer.read(18, 20, 1000, out), 20);
  EXPECT_EQ(out, "id: 19\n" + event + "id: 20\n" + event);
  buffer.add("data: " + std::string(500, 'x') + "\n\n");  // larger than all: it is kept
  EXPECT_TRUE(buffer.has_all_after(20));
  EXPECT_FALSE(buffer.has_all_after(19));
}

/// A client without a socket.
struct Client {
  std::shared_ptr<ResponseStream> stream =
      std::make_shared<ResponseStream>([](ResponseStream::Urgency /*urgency*/) {});
  std::optional<HttpResponse> head;
  std::string text;

  bool take() {
    ResponseStream::Piece piece = stream->take();
    if (piece.head) head = std::move(piece.head);
    EXPECT_TRUE(head || piece.bytes.empty()) << piece.bytes;
    text += piece.bytes;
    return piece.ended;
  }
  /// Until the response has `wanted`.
  void read_until(const std::string& wanted) {
    while (text.find(wanted) == std::string::npos) {
      (void)take();
      std::this_thread::yield();
    }
  }
  void read_whole() {
    while (!take()) std::this_thread::yield();
  }
};

class DetachedAnswersTest : public testing::Test {
 protected:
  DetachedAnswersTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("chimere_detached_") +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    store_ = ConversationStore::open((folder_ / "history.db").string()).value();
    answers_ = std::make_unique<DetachedAnswers>(*store_);
    StoredMessage message;
    message.id = "m";
    message.role = "assistant";
    message.complete = false;
    for (const char* owner : {"ada", "bob"}) {
      EXPECT_TRUE(store_->put(owner, "c", {}).ok());
      EXPECT_TRUE(store_->put_messages(owner, "c", {message}).ok());
    }
  }
  ~DetachedAnswersTest() override {
    answers_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  /// Begins a generation for a client, as an endpoint and its job do it.
  std::shared_ptr<DetachedAnswer> begin(Client& client) {
    std::shared_ptr<DetachedAnswer> out;
    EXPECT_FALSE(answers_->begin(kPlace, "mini", client.stream, out));
    out->write_with(protocol::openai_writer({"chatcmpl-1", 0, "mini", "f", {}}, true, true));
    out->stream()->start_events({{"X-Request-Id", "r"}});
    out->stream()->event(out->open(std::vector<protocol::Choice>(1), 3));
    return out;
  }
  static void say(DetachedAnswer& answer, const std::string& content, const std::string& reasoning,
                  const std::string& finish = "") {
    protocol::Choice part;
    part.content = content;
    part.reasoning = reasoning;
    part.finish_reason = finish;
    answer.stream()->event(answer.piece(part));
  }
  static void end(DetachedAnswer& answer) {
    say(answer, "", "", "stop");
    answer.stream()->event(answer.close({.prompt_tokens = 3, .completion_tokens = 5}, {}));
    answer.stream()->end_events();
  }
  StoredMessage stored(const std::string& owner = "ada") {
    return store_->message(owner, "c", "m").value();
  }
  void wait_for_text(const std::string& content) {
    while (stored().content != content) std::this_thread::yield();
  }

  const DetachedAnswer::Place kPlace{"ada", "c", "m"};
  const std::filesystem::path folder_;
  std::unique_ptr<ConversationStore> store_;
  std::unique_ptr<DetachedAnswers> answers_;
};

TEST_F(DetachedAnswersTest, ContinuesWithoutItsClientAndIsStored) {
  Client first;
  const auto answer = begin(first);
  say(*answer, "", "Let me think");
  say(*answer, "It lists ", "");
  first.read_until("It lists ");
  EXPECT_EQ(first.head->status, 200);
  EXPECT_EQ(first.head->headers[0].second, "r");
  first.stream->abandon();
  EXPECT_FALSE(answer->stream()->stopped());
  wait_for_text("It lists ");  // before the end: a server that is killed has it
  EXPECT_EQ(stored().reasoning, "Let me think");
  EXPECT_FALSE(stored().complete);

  Client second;  // has the role, the reasoning and the first text
  answers_->find(kPlace)->attach(second.stream, {}, 3);
  say(*answer, "files.", "");
  second.read_until("files.");
  EXPECT_TRUE(second.text.starts_with("id: 4\ndata: "));
  EXPECT_EQ(second.text.find("It lists"), std::string::npos);
  Client third;  // has nothing
  answers_->find(kPlace)->attach(third.stream, {}, std::nullopt);
  third.read_until("conversation.message");
  EXPECT_TRUE(third.text.starts_with("id: 4\ndata: ")) << third.text;
  EXPECT_NE(third.text.find("It lists files."), std::string::npos);
  end(*answer);
  second.read_whole();
  EXPECT_TRUE(second.text.ends_with("id: 7\ndata: [DONE]\n\n")) << second.text;
  third.read_whole();
  EXPECT_TRUE(third.text.ends_with("id: 7\ndata: [DONE]\n\n"));
  // Readers have the end: so has the store.
  EXPECT_EQ(stored().content, "It lists files.");
  EXPECT_TRUE(stored().complete);
  for (const char* part : {R"("model":"mini")", R"("finish":"stop")", R"("completion":5)",
                           R"("reasoningMs":)", R"("totalMs":)"}) {
    EXPECT_NE(stored().data.find(part), std::string::npos) << stored().data;
  }
  Client late;
  answers_->find(kPlace)->attach(late.stream, {}, std::nullopt);
  late.read_whole();
  EXPECT_NE(late.text.find("It lists files."), std::string::npos);
  EXPECT_TRUE(late.text.ends_with("data: [DONE]\n\n"));
  Client complete;
  answers_->find(kPlace)->attach(complete.stream, {}, 7);
  complete.read_whole();
  EXPECT_EQ(complete.text, "");
  EXPECT_EQ(stored("bob").content, "");
  EXPECT_EQ(answers_->find({"bob", "c", "m"}), nullptr);
}

TEST_F(DetachedAnswersTest, AReaderWhoseEventsAreGoneReceivesTheMessage) {
  Client first;
  const auto answer = begin(first);
  first.read_until("assistant");
  const std::string line(100'000, 'x');
  for (int i = 0; i < 40; ++i) {
    say(*answer, line, "");
    first.read_until("id: " + std::to_string(i + 2) + "\n");
  }
  Client second;
  answer->attach(second.stream, {}, 1);
  second.read_until("conversation.message");
  EXPECT_TRUE(second.text.starts_with("id: 41\n"));
  EXPECT_GT(second.text.size(), 40 * line.size());
  end(*answer);
  second.read_whole();
}

TEST_F(DetachedAnswersTest, StopsAndExtendsAndRefusesASecondOne) {
  Client client;
  const auto answer = begin(client);
  say(*answer, "It lists", "");
  client.read_until("It lists");
  std::shared_ptr<DetachedAnswer> none;
  const auto error = answers_->begin(kPlace, "mini", Client().stream, none);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, "generation_running");
  // The job ends the generation when its stream says so.
  answer->stream()->on_stopped([&] {
    answer->stream()->event(answer->fail({"cancelled", "The request was cancelled."}));
    answer->stream()->end_events();
  });
  std::optional<StoredMessage> told;
  answer->stop([&](const StoredMessage& message) { told = message; });
  client.read_whole();
  while (answers_->find(kPlace)->state() != DetachedAnswer::State::kStored) {
    std::this_thread::yield();
  }
  EXPECT_EQ(stored().content, "It lists");
  EXPECT_NE(stored().data.find(R"("finish":"stopped")"), std::string::npos);
  EXPECT_TRUE(stored().complete);
  answers_->stop();  // its thread has told it
  EXPECT_EQ(told->content, "It lists");
}

TEST_F(DetachedAnswersTest, ContinuesAStoredText) {
  StoredMessage message = stored();
  message.content = "caf\xc3\xa9 ";
  message.data = R"({"error":"gone","tokens":[1]})";
  ASSERT_TRUE(store_->put_messages("ada", "c", {message}).ok());
  Client client;
  const auto answer = begin(client);
  say(*answer, "au ", "");
  wait_for_text("caf\xc3\xa9 au ");
  say(*answer, "lait", "");
  end(*answer);
  client.read_whole();
  EXPECT_EQ(stored().content, "caf\xc3\xa9 au lait");
  EXPECT_EQ(stored().data.find("gone"), std::string::npos);
  EXPECT_NE(stored().data.find(R"("tokens":[1])"), std::string::npos);
}

TEST_F(DetachedAnswersTest, ADeletedMessageEndsItsGenerationAndStaysDeleted) {
  Client client;
  const auto answer = begin(client);
  ASSERT_TRUE(store_->erase_message("ada", "c", "m").ok());
  say(*answer, "It lists", "");
  while (!answer->stream()->stopped()) std::this_thread::yield();
  answer->stream()->event(answer->fail({"cancelled", "The request was cancelled."}));
  answer->stream()->end_events();
  client.read_whole();
  EXPECT_FALSE(store_->message("ada", "c", "m").ok());
}

TEST_F(DetachedAnswersTest, ARefusalGoesToTheClientAndFreesTheMessage) {
  Client client;
  std::shared_ptr<DetachedAnswer> answer;
  ASSERT_FALSE(answers_->begin(kPlace, "mini", client.stream, answer));
  answer->stream()->respond({400, "no"});
  client.read_whole();
  EXPECT_EQ(client.head->status, 400);
  EXPECT_EQ(client.head->body, "no");
  while (answers_->find(kPlace) != nullptr) std::this_thread::yield();
  EXPECT_TRUE(answers_->begin({"ada", "c", "none"}, "mini", client.stream, answer));
  EXPECT_TRUE(answers_->begin({"eve", "c", "m"}, "mini", client.stream, answer));
}

}  // namespace
}  // namespace chimere::serving
