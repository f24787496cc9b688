#include "sampling/params.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/settings.h"

namespace chimere::sampling {
namespace {

std::string text_of(double value) {
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%.17g", value);
  return text.data();
}

/// Sets one option to a bound of its range and compares the member that it must reach.
template <typename Get>
void check_option(const SettingInfo& setting, const Get& get) {
  for (const double bound : {setting.min, setting.max}) {
    Settings settings;
    ASSERT_TRUE(settings.set(setting, text_of(bound), "the test").ok()) << setting.name;
    const SamplingParams params = params_from(settings);
    EXPECT_EQ(static_cast<float>(get(params)), static_cast<float>(bound)) << setting.name;
    EXPECT_TRUE(validate(params).ok()) << setting.name;
  }
}

TEST(Params, EveryOptionFollowsItsSetting) {
#define SAMPLING_OPTION(id, type, member, ...) \
  check_option(settings::id, [](const SamplingParams& p) { return p.member; });
#define DRY_OPTION(id, type, member, ...) \
  check_option(settings::id, [](const SamplingParams& p) { return p.dry.member; });
#include "base/settings.def"
}

TEST(Params, EveryOptionIsValidated) {
  const auto refused = [](const SettingInfo& setting, const SamplingParams& params) {
    const Status status = validate(params);
    ASSERT_FALSE(status.ok()) << setting.name;
    EXPECT_NE(status.error().message.find(setting.name), std::string::npos)
        << status.error().message;
  };
#define SAMPLING_OPTION(id, type, member, ...)              \
  {                                                         \
    SamplingParams p;                                       \
    p.member = static_cast<type>(settings::id.min - 1);     \
    refused(settings::id, p);                               \
    p.member = static_cast<type>(2 * settings::id.max + 1); \
    refused(settings::id, p);                               \
  }
#define DRY_OPTION(id, type, member, ...)                       \
  {                                                             \
    SamplingParams p;                                           \
    p.dry.member = static_cast<type>(settings::id.min - 1);     \
    refused(settings::id, p);                                   \
    p.dry.member = static_cast<type>(2 * settings::id.max + 1); \
    refused(settings::id, p);                                   \
  }
#include "base/settings.def"
}

TEST(Params, SamplersFollowTheirSetting) {
  Settings settings;
  EXPECT_EQ(params_from(settings).order, SamplingParams().order);
  ASSERT_TRUE(settings.set(settings::kSamplers, "min_p;temperature", "the test").ok());
  EXPECT_EQ(params_from(settings).order,
            (std::vector<SamplerType>{SamplerType::kMinP, SamplerType::kTemperature}));
}

}  // namespace
}  // namespace chimere::sampling
