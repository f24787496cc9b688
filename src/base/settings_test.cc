#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>

namespace chimere {
namespace {

using ::testing::HasSubstr;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& content)
      : path_(::testing::TempDir() + "chimere-config-" +
              std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::ofstream(path_) << content;
  }
  ~ConfigFile() { (void)std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Registry, NamesAreUniqueAndHaveHelp) {
  std::set<std::string_view> names;
  std::set<std::string_view> flags;
  for (const SettingInfo* s : settings::all()) {
    EXPECT_TRUE(names.insert(s->name).second) << s->name;
    EXPECT_TRUE(s->short_flag.empty() || flags.insert(s->short_flag).second) << s->name;
    EXPECT_FALSE(s->help.empty()) << s->name;
    EXPECT_EQ(settings::find(s->name), s);
    // A default value passes its own validation.
    Settings values;
    EXPECT_TRUE(values.set(*s, s->default_value, "default").ok()) << s->name;
  }
  EXPECT_EQ(settings::find("top-k"), &settings::kTopK);
  EXPECT_EQ(settings::variable_name(settings::kTopK), "CHIMERE_TOP_K");
  EXPECT_EQ(settings::find("no-such-setting"), nullptr);
}

TEST(Settings, LaterSourcesOverrideEarlierOnes) {
  const ConfigFile file("# a comment\n\n  top-k = 7\ntemp=0.25 \nmodel = a = b\n");
  Settings values;
  EXPECT_EQ(values.get(settings::kTopK), 20);
  ASSERT_TRUE(values.load_file(file.path()).ok());
  EXPECT_EQ(values.get(settings::kTopK), 7);
  EXPECT_EQ(values.get(settings::kTemperature), 0.25);
  EXPECT_EQ(values.get(settings::kModel), "a = b");
  const char* environment[] = {"HOME=/", "CHIMERE_TOP_K=8", "CHIMERE_CACHE_K=f32", nullptr};
  ASSERT_TRUE(values.load_environment(environment).ok());
  EXPECT_EQ(values.get(settings::kTopK), 8);
  EXPECT_EQ(values.get(settings::kCacheK), "f32");
  ASSERT_TRUE(values.set(settings::kTopK, "9", "--top-k").ok());
  EXPECT_EQ(values.get(settings::kTopK), 9);
  EXPECT_EQ(values.get(settings::kTemperature), 0.25);
}

std::string complaint(const SettingInfo& setting, std::string_view text) {
  Settings values;
  const Status status = values.set(setting, text, "the flag");
  return status.ok() ? "accepted" : status.error().message;
}

TEST(Settings, BadValuesAreRefusedWithTheRange) {
  EXPECT_THAT(complaint(settings::kTopK, "-1"), HasSubstr("from 0 to"));
  EXPECT_THAT(complaint(settings::kTopK, "3x"), HasSubstr("'3x' of the flag"));
  EXPECT_THAT(complaint(settings::kTopK, ""), HasSubstr("whole number"));
  EXPECT_THAT(complaint(settings::kTopK, "99999999999999999999"), HasSubstr("whole number"));
  EXPECT_THAT(complaint(settings::kTemperature, "nan"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(complaint(settings::kTemperature, "1e9"), HasSubstr("from 0 to 100"));
  EXPECT_THAT(complaint(settings::kCacheV, "q8"), HasSubstr("one of f32, f16"));
  EXPECT_THAT(complaint(settings::kCudaProfile, "sm_90"), HasSubstr("one of native, sm_120"));
  EXPECT_THAT(complaint(settings::kVramBudget, "x"), HasSubstr("'x' of the flag"));
  EXPECT_THAT(complaint(settings::kVramBudget, "x"), HasSubstr("like 15.5GiB"));
  EXPECT_THAT(complaint(settings::kStateMemory, "8GiB"), "accepted");
  EXPECT_THAT(complaint(settings::kMirostat, "1"), HasSubstr("one of 0, 2"));
  EXPECT_THAT(complaint(settings::kBackend, "vulkan"), HasSubstr("one of auto, cpu, cuda"));
}

TEST(Settings, SwitchesAndEstablishedVariables) {
  Settings values;
  EXPECT_FALSE(values.get(settings::kOffline));
  const char* environment[] = {"HF_HUB_OFFLINE=Yes", "HF_TOKEN=t", "HF_HOME=/x", nullptr};
  ASSERT_TRUE(values.load_environment(environment).ok());
  EXPECT_TRUE(values.get(settings::kOffline));
  EXPECT_EQ(values.get(settings::kHubToken), "t");
  ASSERT_TRUE(values.set(settings::kOffline, "off", "--offline").ok());
  EXPECT_FALSE(values.get(settings::kOffline));
  ASSERT_TRUE(values.set(settings::kOffline, "1", "--offline").ok());
  ASSERT_TRUE(values.set(settings::kOffline, "", "HF_HUB_OFFLINE").ok());
  EXPECT_FALSE(values.get(settings::kOffline));
  EXPECT_THAT(complaint(settings::kOffline, "maybe"), HasSubstr("one of 1, 0, true"));
}

TEST(Settings, ListsAreCheckedItemByItem) {
  Settings values;
  EXPECT_TRUE(values.set(settings::kSamplers, "top_k;temperature;top_k", "the flag").ok());
  EXPECT_EQ(values.get(settings::kSamplers), "top_k;temperature;top_k");
  for (const auto* bad : {"", ";", "top_k;", "top_k,temperature", "top_k; temperature", "heat"}) {
    EXPECT_THAT(complaint(settings::kSamplers, bad), HasSubstr("a list, separated by ';'"));
  }
}

TEST(Settings, UnknownNamesAreErrors) {
  Settings values;
  const ConfigFile unknown("top-k = 3\nthreds = 2\n");
  EXPECT_THAT(values.load_file(unknown.path()).error().message,
              HasSubstr(":2: there is no setting 'threds'"));
  const ConfigFile shapeless("top-k 3\n");
  EXPECT_THAT(values.load_file(shapeless.path()).error().message, HasSubstr("key = value"));
  EXPECT_EQ(values.load_file("/nonexistent/config").error().code, Error::Code::kNotFound);
  const char* environment[] = {"CHIMERE_THREDS=2", nullptr};
  EXPECT_THAT(values.load_environment(environment).error().message, HasSubstr("CHIMERE_THREDS"));
}

}  // namespace
}  // namespace chimere
