#include "serving/api_keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace chimere::serving {
namespace {

class ApiKeysTest : public testing::Test {
 protected:
  ApiKeysTest() : path_(testing::TempDir() + "chimere_keys_test.json") {}
  ~ApiKeysTest() override { std::filesystem::remove(path_); }

  ApiKey entry(const std::string& name, const std::string& key) {
    ApiKey out;
    out.name = name;
    out.digest = key_digest(key);
    return out;
  }

  std::string path_;
};

TEST_F(ApiKeysTest, FindsKeys) {
  const std::string ann = make_key();
  const std::string bob = make_key();
  EXPECT_NE(ann, bob);
  ApiKey limited = entry("bob", bob);
  limited.scopes = {"metrics"};
  limited.parallel = 3;
  ASSERT_TRUE(save_keys(path_, {entry("ann", ann), limited}).ok());
  std::ifstream file(path_);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text.find(ann), std::string::npos) << "the key file must not contain the key";
  const auto ring = KeyRing::open(path_);
  ASSERT_TRUE(ring.ok()) << ring.error().message;
  EXPECT_EQ((*ring)->find(ann)->name, "ann");
  EXPECT_TRUE((*ring)->find(ann)->has_scope("inference"));
  EXPECT_FALSE((*ring)->find(bob)->has_scope("inference"));
  EXPECT_EQ((*ring)->find(bob)->parallel, 3);
  EXPECT_EQ((*ring)->find(""), nullptr);
  EXPECT_EQ((*ring)->find(ann + "x"), nullptr);
  EXPECT_EQ((*ring)->find(key_digest(ann)), nullptr);
}

TEST_F(ApiKeysTest, DetectsChanges) {
  const std::string first = make_key();
  const std::string second = make_key();
  ASSERT_TRUE(save_keys(path_, {entry("one", first)}).ok());
  const auto ring = KeyRing::open(path_);
  ASSERT_TRUE(ring.ok());
  ASSERT_TRUE(save_keys(path_, {entry("two", second)}).ok());
  std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ((*ring)->find(first), nullptr);
  ASSERT_NE((*ring)->find(second), nullptr);
  // A file that becomes unreadable leaves the keys unchanged.
  std::ofstream(path_) << "{";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_NE((*ring)->find(second), nullptr);
}

TEST_F(ApiKeysTest, KeysAreMadeAndRemovedWhileTheServerRuns) {
  const std::string first = make_key();
  ASSERT_TRUE(save_keys(path_, {entry("one", first)}).ok());
  const auto ring = KeyRing::open(path_);
  ASSERT_TRUE(ring.ok());
  ApiKey wanted;
  wanted.name = "two";
  wanted.parallel = 3;
  const auto made = (*ring)->add(wanted);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_NE((*ring)->find(*made), nullptr);
  EXPECT_EQ((*ring)->find(*made)->parallel, 3);
  EXPECT_NE((*ring)->find(first), nullptr);
  EXPECT_EQ((*ring)->list()->size(), 2U);
  EXPECT_EQ((*ring)->add(wanted).error().code, Error::Code::kInvalidArgument);  // the name is taken
  wanted.name = "a b";
  EXPECT_EQ((*ring)->add(wanted).error().code, Error::Code::kInvalidArgument);
  ASSERT_TRUE((*ring)->remove("one").ok());
  EXPECT_EQ((*ring)->find(first), nullptr);
  EXPECT_EQ((*ring)->remove("one").error().code, Error::Code::kNotFound);
  // Another process sees the same.
  const auto again = KeyRing::open(path_);
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->find(*made), nullptr);
}

TEST_F(ApiKeysTest, RejectsFilesThatOthersMayRead) {
  ASSERT_TRUE(save_keys(path_, {entry("one", make_key())}).ok());
  std::filesystem::permissions(path_, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  const auto keys = load_keys(path_);
  ASSERT_FALSE(keys.ok());
  EXPECT_NE(keys.error().message.find("chmod 600"), std::string::npos);
}

TEST_F(ApiKeysTest, RejectsDamagedFiles) {
  for (const auto* text : {"", "[]", "{\"keys\":3}", "{\"keys\":[{}]}", "{\"keys\":[3]}",
                           R"({"keys":[{"name":"a b","sha256":"","scopes":[],"parallel":0}]})"}) {
    std::ofstream(path_) << text;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    EXPECT_FALSE(load_keys(path_).ok()) << text;
  }
  EXPECT_FALSE(KeyRing::open("/nowhere/keys").ok());
  EXPECT_FALSE(check_key({"", "", {"inference"}, 0, 0}).ok());
  EXPECT_FALSE(check_key({"a", "", {"everything"}, 0, 0}).ok());
  EXPECT_FALSE(check_key({"a", "", {"metrics"}, -1, 0}).ok());
}

}  // namespace
}  // namespace chimere::serving
