#include "runtime/file_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gguf/writer.h"

namespace chimere::runtime {
namespace {

using testing::HasSubstr;

Result<Settings> applied(const gguf::Writer& writer, const Settings& settings) {
  const std::vector<uint8_t> bytes = writer.bytes();
  CHIMERE_TRY(const auto file, gguf::Reader::from_bytes(bytes.data(), bytes.size()));
  return with_file_defaults(settings, *file);
}

TEST(FileDefaults, AFileSetsWhatNoSourceHasSet) {
  gguf::Writer writer;
  writer.set_f32("general.sampling.temp", 0.6F);
  writer.set_i32("general.sampling.top_k", 40);
  writer.set_f32("general.sampling.top_p", 0.9F);
  writer.set_f32("general.sampling.min_p", 0.05F);
  writer.set_f32("general.sampling.penalty_repeat", 1.1F);
  writer.set_i32("general.sampling.penalty_last_n", -1);
  writer.set_i32("general.sampling.mirostat", 2);
  writer.set_string("general.sampling.sequence", "top_k;temperature");
  Settings given;
  ASSERT_TRUE(given.set(settings::kTopK, "20", "--top-k").ok());  // its default
  const auto own = applied(writer, given);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->get(settings::kTemperature), 0.6);
  EXPECT_EQ(own->get(settings::kTopK), 20);
  EXPECT_EQ(own->get(settings::kTopP), 0.9);
  EXPECT_EQ(own->get(settings::kMinP), 0.05);
  EXPECT_EQ(own->get(settings::kRepeatPenalty), 1.1);
  EXPECT_EQ(own->get(settings::kPenaltyWindow), -1);
  EXPECT_EQ(own->get(settings::kMirostat), 2);
  EXPECT_EQ(own->get(settings::kSamplers), "top_k;temperature");
  EXPECT_EQ(own->get(settings::kTypical), 1);
}

TEST(FileDefaults, AnImpossibleValueIsRefusedUnlessTheUserReplacesIt) {
  gguf::Writer writer;
  writer.set_f32("general.sampling.top_p", 1.5F);
  Settings settings;
  const auto refused = applied(writer, settings);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("general.sampling.top_p"));
  EXPECT_THAT(refused.error().message, HasSubstr("--top-p"));
  ASSERT_TRUE(settings.set(settings::kTopP, "0.8", "--top-p").ok());
  EXPECT_EQ(applied(writer, settings)->get(settings::kTopP), 0.8);
}

}  // namespace
}  // namespace chimere::runtime
