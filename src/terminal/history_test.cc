#include "terminal/history.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace chimere::terminal {
namespace {

namespace fs = std::filesystem;

class HistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "chimere_history";
    fs::remove_all(folder_);
    path_ = (folder_ / "below" / "history").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string path_;
};

TEST_F(HistoryTest, SurvivesTheProgram) {
  History history(path_);
  EXPECT_TRUE(history.entries().empty());
  ASSERT_TRUE(history.add("one\ntwo \\n").ok());
  ASSERT_TRUE(history.add("three").ok());
  ASSERT_TRUE(history.add("three").ok());
  ASSERT_TRUE(history.add(" \n").ok());
  EXPECT_EQ(History(path_).entries(), (std::vector<std::string>{"one\ntwo \\n", "three"}));
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(HistoryTest, ProgramsDoNotLoseEachOthersEntries) {
  History first(path_);
  History second(path_);
  ASSERT_TRUE(first.add("a").ok());
  ASSERT_TRUE(second.add("b").ok());
  EXPECT_EQ(History(path_).entries(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(HistoryTest, IsBounded) {
  History history;
  for (size_t i = 0; i < History::kMostEntries + 5; ++i) {
    ASSERT_TRUE(history.add(std::to_string(i)).ok());
  }
  EXPECT_EQ(history.entries().size(), History::kMostEntries);
  EXPECT_EQ(history.entries().front(), "5");
  History kept(path_);
  ASSERT_TRUE(kept.add(std::string(History::kLongestKept + 1, 'x')).ok());
  EXPECT_EQ(kept.entries().size(), 1);
  EXPECT_TRUE(History(path_).entries().empty());
}

TEST_F(HistoryTest, ADamagedFileIsReadAsFarAsItGoes) {
  fs::create_directories(fs::path(path_).parent_path());
  std::ofstream(path_) << "good\n\xFF bad\\\n\n";
  EXPECT_EQ(History(path_).entries(), (std::vector<std::string>{"good", "\uFFFD bad\\"}));
}

TEST_F(HistoryTest, AFolderThatCannotBeMadeIsAnError) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "below") << "a file";
  History history(path_);
  EXPECT_FALSE(history.add("x").ok());
  EXPECT_EQ(history.entries().size(), 1);
}

}  // namespace
}  // namespace chimere::terminal
