#include "gguf/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "gguf/writer.h"

namespace chimere::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string temporary(const std::string& name) {
  return (std::filesystem::path(::testing::TempDir()) /
          (std::to_string(std::random_device{}()) + name))
      .string();
}

Writer example() {
  Writer w;
  w.set_string("general.architecture", "test");
  w.set_u32("test.block_count", 7);
  w.set_u64("test.large", UINT64_MAX);
  w.set_i32("test.negative", -3);
  w.set_f32("test.epsilon", 1e-6F);
  w.set_bool("test.flag", true);
  w.set_strings("test.tokens", {"a", std::string("\0b", 2), "\xff"});
  w.set_i32s("test.types", {1, -1});
  w.set_f32s("test.scores", {0.5F, -2.0F});
  w.set_bools("test.flags", {true, false, true});
  const std::vector<float> f = {1, 2, 3, 4, 5, 6};
  EXPECT_TRUE(w.add_tensor("a.weight", {3, 2}, DType::kF32, f.data(), 24).ok());
  const std::vector<uint8_t> q(34 * 4, 9);
  EXPECT_TRUE(w.add_tensor("b.weight", {64, 2}, DType::kQ8_0, q.data(), q.size()).ok());
  return w;
}

TEST(Reader, ReadsBackWhatTheWriterWrote) {
  for (const bool through_disk : {false, true}) {
    const std::vector<uint8_t> bytes = example().bytes();
    const std::string path = temporary("example.gguf");
    ASSERT_TRUE(example().write(path).ok());
    auto opened =
        through_disk ? Reader::open(path) : Reader::from_bytes(bytes.data(), bytes.size());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const Reader& r = **opened;
    EXPECT_EQ(r.version(), 3U);
    EXPECT_EQ(r.file_bytes(), bytes.size());
    EXPECT_EQ(r.keys().size(), 10U);
    EXPECT_EQ(r.keys()[1], "test.block_count");
    EXPECT_EQ(r.get_string("general.architecture").value(), "test");
    EXPECT_EQ(r.get_int("test.block_count").value(), 7);
    EXPECT_EQ(r.get_int("test.negative").value(), -3);
    EXPECT_EQ(r.get_float("test.epsilon").value(), static_cast<double>(1e-6F));
    EXPECT_TRUE(r.get_bool("test.flag").value());
    ASSERT_NE(r.find_strings("test.tokens"), nullptr);
    EXPECT_THAT(*r.find_strings("test.tokens"), ElementsAre("a", std::string("\0b", 2), "\xff"));
    EXPECT_THAT(r.get_int_array("test.types").value(), ElementsAre(1, -1));
    EXPECT_THAT(r.get_float_array("test.scores").value(), ElementsAre(0.5, -2.0));
    const auto* flags = std::get_if<Array>(r.find("test.flags"));
    ASSERT_NE(flags, nullptr);
    EXPECT_EQ(std::get<std::vector<bool>>(flags->items), (std::vector<bool>{true, false, true}));
    ASSERT_EQ(r.tensors().size(), 2U);
    const TensorInfo* a = r.find_tensor("a.weight");
    ASSERT_NE(a, nullptr);
    EXPECT_THAT(a->dims, ElementsAre(3, 2));
    float third = 0;
    std::memcpy(&third, static_cast<const uint8_t*>(a->data) + 8, 4);
    EXPECT_EQ(third, 3.0F);
    const TensorInfo* b = r.find_tensor("b.weight");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->bytes, 136U);
    EXPECT_EQ(b->offset % 32, 0U);
    EXPECT_EQ(static_cast<const uint8_t*>(b->data)[135], 9);
    EXPECT_EQ(r.find_tensor("c.weight"), nullptr);
    EXPECT_EQ(r.files().size(), through_disk ? 1U : 0U);
    std::filesystem::remove(path);
  }
}

TEST(Reader, LookUpsNameTheMissingOrMistypedKey) {
  const std::vector<uint8_t> bytes = example().bytes();
  auto opened = Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(opened.ok());
  const Reader& r = **opened;
  EXPECT_THAT(r.get_int("test.none").error().message,
              HasSubstr("lacks the metadata key 'test.none'"));
  EXPECT_THAT(r.get_int("test.large").error().message, HasSubstr("below 2^63"));
  EXPECT_THAT(r.get_int("test.flag").error().message,
              HasSubstr("'test.flag' should be an integer"));
  EXPECT_THAT(r.get_float("test.block_count").error().message, HasSubstr("floating-point"));
  EXPECT_FALSE(r.get_bool("test.negative").ok());
  EXPECT_FALSE(r.get_string("test.tokens").ok());
  EXPECT_FALSE(r.get_int_array("test.scores").ok());
  EXPECT_FALSE(r.get_float_array("test.types").ok());
  EXPECT_EQ(r.find_strings("test.types"), nullptr);
  EXPECT_EQ(r.find_strings("general.architecture"), nullptr);
}

TEST(Reader, ReportsAMissingPathAndADirectory) {
  EXPECT_EQ(Reader::open(temporary("none")).error().code, Error::Code::kNotFound);
  EXPECT_EQ(Reader::open(::testing::TempDir()).error().code, Error::Code::kIo);
}

TEST(Reader, DetectsThatTheMappedFileWasTruncated) {
  const std::string path = temporary("cut.gguf");
  ASSERT_TRUE(example().write(path).ok());
  auto opened = Reader::open(path);
  ASSERT_TRUE(opened.ok());
  const MappedFile* mapping = &(*opened)->files()[0];
  EXPECT_TRUE((*opened)->check_unchanged().ok());
  std::vector<uint8_t> bytes(mapping->size());
  EXPECT_TRUE((*opened)->read(mapping->data(), bytes).ok());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), mapping->data()));
  std::filesystem::resize_file(path, 10);
  const Status changed = (*opened)->check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr("was changed while in use"));
  EXPECT_FALSE((*opened)->read(mapping->data(), bytes).ok());
  std::filesystem::remove(path);
}

TEST(Writer, RefusesTensorsThatDoNotFitTheirShape) {
  Writer w;
  const std::vector<uint8_t> q(1024);
  EXPECT_FALSE(w.add_tensor("t", {64}, DType::kQ8_0, q.data(), 67).ok());
  EXPECT_FALSE(w.add_tensor("t", {33}, DType::kQ8_0, q.data(), 34).ok());
  EXPECT_FALSE(w.add_tensor("t", {0}, DType::kF32, q.data(), 0).ok());
  EXPECT_FALSE(w.add_tensor("t", {-1, -1}, DType::kF32, q.data(), 4).ok());
  EXPECT_FALSE(w.add_tensor("t", {INT64_MAX, 2}, DType::kF32, q.data(), 8).ok());
  EXPECT_FALSE(w.add_tensor("t", {}, DType::kF32, q.data(), 4).ok());
  EXPECT_FALSE(w.add_tensor("", {1}, DType::kF32, q.data(), 4).ok());
  EXPECT_TRUE(w.add_tensor("t", {64}, DType::kQ8_0, q.data(), 68).ok());
  EXPECT_FALSE(w.add_tensor("t", {64}, DType::kQ8_0, q.data(), 68).ok());
}

TEST(Writer, TensorsMayBeComputedWhileTheFileIsWritten) {
  const std::string path = temporary("made.gguf");
  Writer made;
  Writer copied;
  for (uint8_t i = 1; i <= 3; ++i) {
    const std::string name = "t" + std::to_string(i);
    const std::vector<uint8_t> bytes(4U * i, i);
    ASSERT_TRUE(copied.add_tensor(name, {i}, DType::kF32, bytes.data(), bytes.size()).ok());
    const auto fill = [bytes](std::span<uint8_t> out) -> Status {
      std::copy(bytes.begin(), bytes.end(), out.begin());
      return {};
    };
    ASSERT_TRUE(made.add_tensor(name, {i}, DType::kF32, bytes.size(), fill).ok());
  }
  EXPECT_EQ(made.bytes(), copied.bytes());
  ASSERT_TRUE(made.write(path).ok());
  EXPECT_EQ(std::filesystem::file_size(path), copied.bytes().size());

  const auto fails = [](std::span<uint8_t>) -> Status { return io_error("the fill failed"); };
  ASSERT_TRUE(made.add_tensor("bad", {1}, DType::kF32, 4, fails).ok());
  EXPECT_TRUE(made.bytes().empty());
  EXPECT_EQ(made.write(path + "2").error().message, "the fill failed");
  EXPECT_FALSE(std::filesystem::exists(path + "2"));
  EXPECT_FALSE(std::filesystem::exists(path + "2.partial"));
  std::filesystem::remove(path);
}

TEST(Writer, SettingAKeyAgainReplacesIt) {
  Writer w;
  w.set_u32("a", 1);
  w.set_u32("b", 2);
  w.set_string("a", "new");
  const std::vector<uint8_t> bytes = w.bytes();
  auto r = Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(r.ok());
  EXPECT_THAT((*r)->keys(), ElementsAre("a", "b"));
  EXPECT_EQ((*r)->get_string("a").value(), "new");
}

TEST(Writer, WritesOtherAlignmentsAndReportsImpossibleOnes) {
  Writer w(4096);
  const float f = 1;
  ASSERT_TRUE(w.add_tensor("t", {1}, DType::kF32, &f, 4).ok());
  const std::vector<uint8_t> bytes = w.bytes();
  auto r = Reader::from_bytes(bytes.data(), bytes.size());
  ASSERT_TRUE(r.ok());
  EXPECT_EQ((*r)->find_tensor("t")->offset, 4096U);
  for (const uint32_t bad : {0U, 1U, 24U, 4U}) {
    EXPECT_FALSE(Writer(bad).write(temporary("bad")).ok()) << bad;
    EXPECT_TRUE(Writer(bad).bytes().empty()) << bad;
  }
  EXPECT_EQ(example().write(temporary("no") + "/directory/x.gguf").error().code, Error::Code::kIo);
}

}  // namespace
}  // namespace chimere::gguf
