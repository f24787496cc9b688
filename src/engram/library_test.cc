#include "engram/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>

namespace chimere::engram {
namespace {

constexpr uint16_t kDay = 20000;
const std::vector<std::string> kScope = {"team-a"};

class LibraryTest : public testing::Test {
 protected:
  LibraryTest() { std::filesystem::remove_all(folder_); }
  /// A text of consecutive tokens from `from`.
  static Candidate row(int32_t from, double score = 1, size_t n = 20) {
    Candidate c{std::vector<int32_t>(n), score};
    std::iota(c.tokens.begin(), c.tokens.end(), from);
    return c;
  }
  WriteReport write(const Candidate& text) {
    return library_.write("team-a", {&text, 1}, "test", kDay).value();
  }
  float count_behind(const Table& table, int32_t token) {
    std::vector<Evidence> found;
    const std::vector<int32_t> history = {token - 4, token - 3, token - 2, token - 1, token};
    EXPECT_TRUE(table.find(history, found).ok());
    return found.size() < 5 ? 0 : found.back().top[0].count;
  }

  std::string folder_ = testing::TempDir() + "library_test";
  Library library_{folder_, 7};
};

TEST_F(LibraryTest, WritingAddsAndReadersKeepTheirTable) {
  EXPECT_EQ(write(row(10)).written, 1);
  const auto before = library_.tables(kScope).value()[0];
  EXPECT_EQ(count_behind(*before, 20), 1);
  write(row(10));
  EXPECT_EQ(count_behind(*before, 20), 1);
  EXPECT_EQ(count_behind(*library_.tables(kScope).value()[0], 20), 2);
}

TEST_F(LibraryTest, ScoresAreWeights) {
  write(row(10, 0.5));
  EXPECT_EQ(count_behind(*library_.tables(kScope).value()[0], 20), 0.5F);
}

TEST_F(LibraryTest, RejectsTextsOfLowQuality) {
  Candidate repeated = row(1);
  std::ranges::fill(repeated.tokens, 3);
  const std::vector<Candidate> texts = {row(1, 0.2), row(1, 1, 4), repeated, row(1, std::nan(""))};
  const WriteReport report = library_.write("team-a", texts, "test", kDay).value();
  EXPECT_EQ(report.written, 0);
  ASSERT_EQ(report.refused.size(), 4);
  for (const std::string& why : report.refused) EXPECT_TRUE(why.starts_with("texts[")) << why;
  EXPECT_FALSE(std::filesystem::exists(folder_)) << "nothing was written";
}

TEST_F(LibraryTest, ScopesAreNotPaths) {
  for (const char* scope : {"", "../x", "a/b", "a.b", "ä"}) {
    EXPECT_FALSE(Library::check_scope(scope).ok()) << scope;
  }
  EXPECT_TRUE(Library::check_scope("Team_1-x").ok());
  EXPECT_EQ(library_.tables(kScope).error().code, Error::Code::kNotFound);
}

TEST_F(LibraryTest, AFullTableErrorNamesTheRemedy) {
  Library small(folder_, 7, {.max_ngrams = 10});
  const Candidate text = row(1);
  const auto report = small.write("team-a", {&text, 1}, "test", kDay);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, testing::HasSubstr("prune"));
}

TEST_F(LibraryTest, ReadersAndWritersAtTheSameTime) {
  write(row(10));
  std::atomic<bool> done = false;
  std::thread reader([&] {
    float last = 0;
    while (!done) {
      const auto tables = library_.tables(kScope);
      ASSERT_TRUE(tables.ok());
      const float now = count_behind(*(*tables)[0], 20);
      EXPECT_GE(now, last);
      last = now;
    }
  });
  for (int i = 0; i < 20; ++i) write(row(10));
  done = true;
  reader.join();
  EXPECT_EQ(count_behind(*library_.tables(kScope).value()[0], 20), 21);
}

}  // namespace
}  // namespace chimere::engram
