#include "convert/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace chimere::convert {
namespace {

std::vector<uint8_t> file_of(const std::string& header, size_t data) {
  const uint64_t size = header.size();
  std::vector<uint8_t> out(sizeof(size));
  std::memcpy(out.data(), &size, sizeof(size));
  out.insert(out.end(), header.begin(), header.end());
  for (size_t i = 0; i < data; ++i) out.push_back(static_cast<uint8_t>(i));
  return out;
}

std::string message(const std::string& header, size_t data) {
  const auto bytes = file_of(header, data);
  const auto parsed = parse_safetensors(bytes, "m.safetensors");
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto bytes = file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      16);
  const auto parsed = parse_safetensors(bytes, "m.safetensors");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 2);
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[0].elements(), 1);
  EXPECT_EQ((*parsed)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*parsed)[1].type, SourceType::kF16);
  EXPECT_EQ((*parsed)[1].bytes.front(), 4);
}

TEST(Safetensors, RefusesHeadersThatLie) {
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,12]}})", 24)
                .find("12 bytes where its shape and type need 16"),
            std::string::npos);
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 12)
                .find("shape that does not fit"),
            std::string::npos);
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})", 12)
                .find("outside the file"),
            std::string::npos);
  EXPECT_NE(
      message(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 12)
          .find("shape that does not fit"),
      std::string::npos);
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4).find("shape"),
            std::string::npos);
  EXPECT_NE(message(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4)
                .find("unknown type 'F99'"),
            std::string::npos);
  EXPECT_NE(message(R"({"a":7})", 4).find("no valid dtype"), std::string::npos);
}

TEST(Safetensors, RefusesOverlapsGapsAndRemains) {
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    12)
                .find("'b' overlaps another one"),
            std::string::npos);
  EXPECT_NE(
      message(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8).find("leaves a gap"),
      std::string::npos);
  EXPECT_NE(message(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)
                .find("4 bytes behind its last tensor"),
            std::string::npos);
}

TEST(Safetensors, RefusesDamagedHeaders) {
  EXPECT_NE(message("[1]", 0).find("is not a JSON object"), std::string::npos);
  EXPECT_NE(message("{", 0).find("is not a JSON object"), std::string::npos);
  EXPECT_NE(message(R"({"a":1,"a":2})", 0).find("the name 'a' twice"), std::string::npos);
  EXPECT_NE(message(R"({"a":)" + std::string(1000, '[') + "}", 0).find("nested deeper"),
            std::string::npos);
  const std::vector<uint8_t> huge(8, 0xFF);
  const auto parsed = parse_safetensors(huge, "m.safetensors");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message.find("which cannot be"), std::string::npos);
  EXPECT_FALSE(parse_safetensors({}, "m.safetensors").ok());
}

}  // namespace
}  // namespace chimere::convert
