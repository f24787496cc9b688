#include "database/database.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "database/word_score.h"

namespace chimere::database {
namespace {

constexpr std::array<Migration, 1> kFirst = {
    {{"CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT UNIQUE, data BLOB)"}}};
constexpr std::array<Migration, 2> kSecond = {
    {kFirst[0], {"ALTER TABLE note ADD COLUMN score REAL DEFAULT 0.5"}}};

class DatabaseTest : public testing::Test {
 protected:
  DatabaseTest()
      : folder_(std::filesystem::path(testing::TempDir()) / ("chimere_database_" + name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DatabaseTest() override { std::filesystem::remove_all(folder_); }
  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  std::string path() const { return (folder_ / "test.db").string(); }

  static int64_t count(Database& database) {
    Statement statement = database.prepare("SELECT count(*) FROM note").value();
    EXPECT_TRUE(statement.step().value());
    return statement.integer(0);
  }

  std::filesystem::path folder_;
};

TEST_F(DatabaseTest, ReadsBackWhatWasBound) {
  Database database = Database::open(path(), kFirst).value();
  Statement insert = database.prepare("INSERT INTO note(text, data) VALUES(?1, ?2)").value();
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(insert.bind("caf\xc3\xa9", std::as_bytes(std::span(bytes))).ok());
  ASSERT_TRUE(insert.run().ok());
  ASSERT_TRUE(insert.bind("", nullptr).ok());
  ASSERT_TRUE(insert.run().ok());
  EXPECT_EQ(database.last_insert_id(), 2);
  Statement select = database.prepare("SELECT text, data, 3, 0.25 FROM note ORDER BY id").value();
  ASSERT_TRUE(select.bind().ok());
  ASSERT_TRUE(select.step().value());
  EXPECT_EQ(select.text(0), "caf\xc3\xa9");
  EXPECT_EQ(select.bytes(1).size(), 3U);
  EXPECT_EQ(select.bytes(1)[2], std::byte{'b'});
  EXPECT_EQ(select.integer(2), 3);
  EXPECT_EQ(select.number(3), 0.25);
  ASSERT_TRUE(select.step().value());
  EXPECT_FALSE(select.is_null(0));
  EXPECT_TRUE(select.is_null(1));
  EXPECT_FALSE(select.step().value());
}

TEST_F(DatabaseTest, OpensAgainAndMigrates) {
  {
    Database database = Database::open(path(), kFirst).value();
    ASSERT_TRUE(database.run("INSERT INTO note(text) VALUES('kept')").ok());
  }
  {
    Database database = Database::open(path(), kSecond).value();
    Statement select = database.prepare("SELECT text, score FROM note").value();
    ASSERT_TRUE(select.step().value());
    EXPECT_EQ(select.text(0), "kept");
    EXPECT_EQ(select.number(1), 0.5);
    EXPECT_EQ(database.check().value(), "ok");
  }
  const Result<Database> newer = Database::open(path(), kFirst);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, Error::Code::kUnsupported);
  EXPECT_NE(newer.error().message.find("version 2"), std::string::npos) << newer.error().message;
}

TEST_F(DatabaseTest, AMigrationThatFailsLeavesTheVersionBefore) {
  { ASSERT_TRUE(Database::open(path(), kFirst).ok()); }
  constexpr std::array<Migration, 2> wrong = {
      {kFirst[0], {"ALTER TABLE note ADD COLUMN score REAL; DROP TABLE absent"}}};
  EXPECT_FALSE(Database::open(path(), wrong).ok());
  EXPECT_TRUE(Database::open(path(), kFirst).ok());
  EXPECT_TRUE(Database::open(path(), kSecond).ok());
}

TEST_F(DatabaseTest, ATransactionIsRolledBackUnlessCommitted) {
  Database database = Database::open(path(), kFirst).value();
  {
    Transaction transaction = Transaction::begin(database).value();
    ASSERT_TRUE(database.run("INSERT INTO note(text) VALUES('lost')").ok());
  }
  EXPECT_EQ(count(database), 0);
  {
    Transaction transaction = Transaction::begin(database).value();
    ASSERT_TRUE(database.run("INSERT INTO note(text) VALUES('kept')").ok());
    ASSERT_TRUE(transaction.commit().ok());
  }
  EXPECT_EQ(count(database), 1);
}

TEST_F(DatabaseTest, ErrorsHaveACode) {
  Database database = Database::open(path(), kFirst).value();
  ASSERT_TRUE(database.run("INSERT INTO note(text) VALUES('one')").ok());
  const Result<void> twice = database.run("INSERT INTO note(text) VALUES('one')");
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code, Error::Code::kInvalidArgument);
  EXPECT_FALSE(database.prepare("SELECT nothing FROM nowhere").ok());

  std::ofstream((folder_ / "no.db").string()) << std::string(5000, 'x');
  const Result<Database> damaged = Database::open((folder_ / "no.db").string(), kFirst);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, Error::Code::kInvalidData) << damaged.error().message;
  EXPECT_FALSE(Database::open((folder_ / "absent" / "a.db").string(), kFirst).ok());
}

TEST_F(DatabaseTest, SeveralConnectionsOpenAndWriteAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRows = 25;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      Result<Database> database = Database::open(path(), kSecond);
      ASSERT_TRUE(database.ok()) << database.error().message;
      for (int i = 0; i < kRows; ++i) {
        Statement insert = database->prepare("INSERT INTO note(text) VALUES(?1)").value();
        ASSERT_TRUE(insert.bind(std::to_string(t) + "/" + std::to_string(i)).ok());
        const Result<void> done = insert.run();
        ASSERT_TRUE(done.ok()) << done.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Database database = Database::open(path(), kSecond).value();
  EXPECT_EQ(count(database), kThreads * kRows);
}

TEST(WordScore, EqualsBm25) {
  constexpr std::array<Migration, 1> kTexts = {
      {{"CREATE VIRTUAL TABLE texts USING fts5 (title, body, tokenize = 'porter unicode61')"}}};
  Database database = Database::open(":memory:", kTexts).value();
  ASSERT_TRUE(add_word_score(database).ok());
  const std::vector<std::string> words = {"stone", "river", "bridge", "boats", "lantern", "the"};
  std::mt19937 random(7);
  const auto text = [&](size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += words[random() % (i % 3 == 0 ? 6 : 3)] + " ";
    return out;
  };
  Statement insert = database.prepare("INSERT INTO texts VALUES (?1, ?2)").value();
  for (size_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(insert.bind(text(random() % 4), text(random() % 60)).ok());
    ASSERT_TRUE(insert.run().ok());
  }
  const auto rows_with = [&](const std::string& expression) {
    Statement select = database.prepare("SELECT count(*) FROM texts WHERE texts MATCH ?1").value();
    EXPECT_TRUE(select.bind(expression).ok());
    EXPECT_TRUE(select.step().value());
    return select.integer(0);
  };
  const auto compare = [&](const std::string& expression, const std::vector<int64_t>& rows,
                           const std::string& scored) {
    Statement ours = database
                         .prepare(
                             "SELECT rowid, word_score(texts, ?2, 8.0, 0.5) FROM texts WHERE "
                             "texts MATCH ?1 ORDER BY rowid")
                         .value();
    Statement theirs = database
                           .prepare(
                               "SELECT rowid, -bm25(texts, 8.0, 0.5) FROM texts WHERE texts "
                               "MATCH ?1 ORDER BY rowid")
                           .value();
    ASSERT_TRUE(ours.bind(expression, std::as_bytes(std::span(rows))).ok());
    ASSERT_TRUE(theirs.bind(scored).ok());
    int n = 0;
    while (theirs.step().value()) {
      ASSERT_TRUE(ours.step().value());
      EXPECT_EQ(ours.integer(0), theirs.integer(0));
      EXPECT_NEAR(ours.number(1), theirs.number(1), 1e-12);
      ++n;
    }
    EXPECT_FALSE(ours.step().value());
    EXPECT_GT(n, 10);
  };
  const std::vector<int64_t> rows = {rows_with("lantern"), rows_with("\"stone river\"")};
  compare("lantern OR \"stone river\"", rows, "lantern OR \"stone river\"");
  // Phrases that only choose rows do not count.
  compare("(lantern OR \"stone river\") AND (lantern OR \"stone river\")", {0, 0, rows[0], rows[1]},
          "lantern OR \"stone river\"");

  Statement wrong =
      database.prepare("SELECT word_score(texts, ?1) FROM texts WHERE texts MATCH 'lantern'")
          .value();
  ASSERT_TRUE(wrong.bind(std::as_bytes(std::span(rows))).ok());
  EXPECT_FALSE(wrong.step().ok());
}

}  // namespace
}  // namespace chimere::database
