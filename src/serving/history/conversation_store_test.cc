#include "serving/history/conversation_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace chimere::serving {
namespace {

class ConversationStoreTest : public testing::Test {
 protected:
  ConversationStoreTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("chimere_history_") +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    store_ = ConversationStore::open(path()).value();
  }
  ~ConversationStoreTest() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "history.db").string(); }

  void say(const std::string& owner, const std::string& id, const std::string& message,
           const std::string& parent, const std::string& content) {
    ASSERT_TRUE(store_->put(owner, id, {}).ok());
    StoredMessage m;
    m.id = message;
    m.parent = parent;
    m.role = "user";
    m.content = content;
    ASSERT_TRUE(store_->put_messages(owner, id, {m}).ok());
  }
  std::vector<std::string> found(const std::string& owner, const std::string& search) {
    std::vector<std::string> out;
    ConversationFilter filter;
    filter.search = search;
    const std::vector<ConversationInfo> listed = store_->list(owner, filter).value();
    for (const ConversationInfo& c : listed) out.push_back(c.id);
    return out;
  }

  std::filesystem::path folder_;
  std::unique_ptr<ConversationStore> store_;
};

TEST_F(ConversationStoreTest, KeepsConversationsOfAnOwnerAcrossARestart) {
  say("ada", "one", "m1", "", "What does ls do?");
  say("ada", "one", "m2", "m1", "It lists files.");
  ConversationChange change;
  change.title = "Files";
  change.pinned = true;
  change.leaf = "m2";
  ASSERT_TRUE(store_->put("ada", "one", change).ok());
  store_.reset();
  store_ = ConversationStore::open(path()).value();
  const ConversationInfo info = store_->info("ada", "one").value();
  EXPECT_EQ(info.title, "Files");
  EXPECT_TRUE(info.pinned);
  EXPECT_EQ(info.leaf, "m2");
  EXPECT_EQ(info.messages, 2);
  const auto messages = store_->messages("ada", "one").value();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[1].parent, "m1");
  EXPECT_EQ(messages[1].content, "It lists files.");
}

TEST_F(ConversationStoreTest, AnotherOwnerSeesNothing) {
  say("ada", "one", "m1", "", "a secret");
  EXPECT_TRUE(found("bob", "").empty());
  EXPECT_TRUE(found("bob", "secret").empty());
  EXPECT_FALSE(store_->info("bob", "one").ok());
  EXPECT_FALSE(store_->messages("bob", "one").ok());
  EXPECT_FALSE(store_->erase("bob", "one").ok());
  EXPECT_FALSE(store_->append("bob", "one", "m1", 0, "x", 0, "").ok());
  say("bob", "one", "m1", "", "of bob");
  EXPECT_EQ(store_->messages("ada", "one").value()[0].content, "a secret");
}

TEST_F(ConversationStoreTest, AppendsOnceAndRefusesGaps) {
  say("", "one", "m1", "", "");
  ASSERT_TRUE(store_->append("", "one", "m1", 0, "caf\xc3\xa9", 0, "Let me").ok());
  ASSERT_TRUE(store_->append("", "one", "m1", 0, "caf\xc3\xa9", 0, "Let me").ok());
  ASSERT_TRUE(store_->append("", "one", "m1", 3, "\xc3\xa9 au lait", 6, " think").ok());
  EXPECT_EQ(store_->messages("", "one").value()[0].content, "caf\xc3\xa9 au lait");
  EXPECT_EQ(store_->messages("", "one").value()[0].reasoning, "Let me think");
  EXPECT_FALSE(store_->append("", "one", "m1", 99, "x", 12, "").ok());
  EXPECT_FALSE(store_->append("", "one", "none", 0, "x", 0, "").ok());
}

TEST_F(ConversationStoreTest, FindsWordsOfMessagesAndTitles) {
  say("", "one", "m1", "", "The zebra keeps its caf\xc3\xa9.");
  say("", "two", "m1", "", "Nothing of the kind");
  EXPECT_EQ(found("", "zeb"), std::vector<std::string>{"one"});
  EXPECT_EQ(found("", "cafe keeps"), std::vector<std::string>{"one"});
  EXPECT_TRUE(found("", "zebra kind").empty());
  ConversationChange change;
  change.title = "100% sure";
  ASSERT_TRUE(store_->put("", "two", change).ok());
  EXPECT_EQ(found("", "100%"), std::vector<std::string>{"two"});
  say("", "one", "m1", "", "The lion");
  EXPECT_TRUE(found("", "zebra").empty());
  EXPECT_EQ(found("", "lion"), std::vector<std::string>{"one"});
  ConversationFilter filter;
  filter.search = "lion";
  EXPECT_EQ(store_->list("", filter).value()[0].excerpt, "The \x02lion\x03");
  for (const char* hostile :
       {"\"", "a OR", "NEAR(", "*", "a\"b", "-x", "text:lion", "(", "\\", "%"}) {
    filter.search = hostile;
    EXPECT_TRUE(store_->list("", filter).ok()) << hostile;
  }
}

TEST_F(ConversationStoreTest, DeletedTextIsNotInTheFiles) {
  say("", "one", "m1", "", "xylophonequartz");
  say("", "one", "m2", "m1", "kept");
  say("", "one", "m3", "m1", "kumquatvortex");
  say("", "one", "m4", "m3", "kumquatvortexes");
  EXPECT_EQ(found("", "xylophonequartz").size(), 1U);
  const auto on_disk = [&](std::string_view word) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(in), {});
      if (bytes.find(word) != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_TRUE(on_disk("kumquatvortex"));
  ASSERT_TRUE(store_->erase_message("", "one", "m3").ok());
  EXPECT_EQ(store_->messages("", "one").value().size(), 2U);
  EXPECT_FALSE(on_disk("kumquatvortex"));
  EXPECT_TRUE(on_disk("xylophonequartz"));
  ASSERT_TRUE(store_->erase("", "one").ok());
  EXPECT_FALSE(on_disk("xylophonequartz"));
  say("ada", "two", "m1", "", "hers");
  say("", "three", "m1", "", "ours");
  ASSERT_TRUE(store_->erase_all("").ok());
  EXPECT_TRUE(found("", "").empty());
  EXPECT_EQ(found("ada", "").size(), 1U);
}

TEST_F(ConversationStoreTest, ListsByFolderPinAndTime) {
  ConversationChange folder;
  folder.folder = "work";
  ASSERT_TRUE(store_->put("", "a", folder).ok());
  ASSERT_TRUE(store_->put("", "b", {}).ok());
  ConversationChange pin;
  pin.pinned = true;
  ASSERT_TRUE(store_->put("", "a", pin).ok());
  EXPECT_EQ(found("", ""), (std::vector<std::string>{"a", "b"}));
  ConversationFilter filter;
  filter.folder = "work";
  EXPECT_EQ(store_->list("", filter).value().size(), 1U);
  filter.folder = "";
  EXPECT_EQ(store_->list("", filter).value()[0].id, "b");
}

TEST(HistoryIdTest, IsShortAndPlain) {
  EXPECT_TRUE(protocol::is_history_id("a-B_9"));
  EXPECT_FALSE(protocol::is_history_id(""));
  EXPECT_FALSE(protocol::is_history_id("a/b"));
  EXPECT_FALSE(protocol::is_history_id(std::string(65, 'a')));
}

}  // namespace
}  // namespace chimere::serving
