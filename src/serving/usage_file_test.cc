#include "serving/usage_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace chimere::serving {
namespace {

class UsageFileTest : public testing::Test {
 protected:
  ~UsageFileTest() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".lock");
  }

  /// Whether a key that may use 100 tokens a day may begin a request.
  static bool may_begin(KeyUsage& usage, const ApiKey& key) {
    const bool may = !usage.begin(&key).has_value();
    if (may) usage.end(&key, 0);
    return may;
  }

  ApiKey key_ = [] {
    ApiKey key;
    key.name = "ann";
    key.tokens_per_day = 100;
    return key;
  }();
  int warnings_ = 0;
  std::function<void(const LogLine&)> log_ = [this](const LogLine&) { ++warnings_; };
  std::string path_ = (std::filesystem::temp_directory_path() /
                       ("chimere-usage-" + std::to_string(std::random_device{}())))
                          .string();
};

TEST_F(UsageFileTest, ARestartKeepsTheCount) {
  {
    KeyUsage usage;
    const auto file = UsageFile::open(path_, usage, log_);
    EXPECT_TRUE(may_begin(usage, key_));
    ASSERT_FALSE(usage.begin(&key_));
    usage.end(&key_, 150);
  }
  KeyUsage usage;
  EXPECT_TRUE(may_begin(usage, key_));
  const auto file = UsageFile::open(path_, usage, log_);
  EXPECT_FALSE(may_begin(usage, key_));
  EXPECT_EQ(usage.today().tokens.at("ann"), 150);
  EXPECT_EQ(warnings_, 0);
}

TEST_F(UsageFileTest, OneServerCounts) {
  KeyUsage usage;
  KeyUsage other;
  {
    const auto file = UsageFile::open(path_, usage, log_);
    ASSERT_TRUE(file.ok());
    const auto second = UsageFile::open(path_, other, log_);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("--state-folder"), std::string::npos);
  }
  EXPECT_TRUE(UsageFile::open(path_, other, log_).ok());
  EXPECT_EQ(warnings_, 0);
}

TEST_F(UsageFileTest, ANewDayBeginsANewCount) {
  KeyUsage::Day before = KeyUsage().today();
  before.day -= std::chrono::days(1);
  before.tokens["ann"] = 1000;
  ASSERT_TRUE(write_usage(path_, before).ok());
  KeyUsage usage;
  const auto file = UsageFile::open(path_, usage, log_);
  EXPECT_TRUE(may_begin(usage, key_));
}

TEST_F(UsageFileTest, ADamagedFileIsReported) {
  for (const char* text : {"", "{", "[]", R"({"day": "x", "tokens": {}})",
                           R"({"day": 1, "tokens": {"a": -1}})", R"({"day": 1, "tokens": []})"}) {
    std::ofstream(path_) << text;
    warnings_ = 0;
    KeyUsage usage;
    const auto file = UsageFile::open(path_, usage, log_);
    EXPECT_EQ(warnings_, 1) << text;
    EXPECT_TRUE(may_begin(usage, key_));
  }
}

}  // namespace
}  // namespace chimere::serving
