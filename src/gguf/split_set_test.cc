#include "gguf/split_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "gguf/reader.h"
#include "gguf/writer.h"

namespace chimere::gguf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Six tensors of 64 bytes, t0 to t5; every float of tensor i is i.
Writer example() {
  Writer w;
  w.set_string("general.architecture", "test");
  w.set_u32("test.block_count", 7);
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> values(16, static_cast<float>(i));
    EXPECT_TRUE(w.add_tensor("t" + std::to_string(i), {16}, DType::kF32, values.data(), 64).ok());
  }
  return w;
}

class SplitSet : public testing::Test {
 protected:
  SplitSet() { fs::create_directory(folder_); }
  ~SplitSet() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::string> write(const Writer& w, const std::string& name, uint64_t max_bytes,
                                 bool metadata_apart = false) {
    auto paths = w.write_split(path(name), max_bytes, metadata_apart);
    EXPECT_TRUE(paths.ok()) << paths.error().message;
    return *paths;
  }

  std::string error(const std::string& file) {
    auto reader = Reader::open(file);
    return reader.ok() ? "" : reader.error().message;
  }

  fs::path folder_ = fs::path(testing::TempDir()) / std::to_string(std::random_device{}());
};

TEST_F(SplitSet, BytesOfEveryPartAreReadWithoutTheMapping) {
  const auto paths = write(example(), "model", 128);
  const auto reader = Reader::open(paths[0]);
  ASSERT_TRUE(reader.ok()) << reader.error().message;
  for (int round = 0; round < 2; ++round) {  // the second time after they were forgotten
    for (const TensorInfo& tensor : (*reader)->tensors()) {
      const auto* data = static_cast<const uint8_t*>(tensor.data);
      std::vector<uint8_t> bytes(tensor.bytes - 4);
      ASSERT_TRUE((*reader)->read(data + 4, bytes).ok());
      EXPECT_EQ(std::memcmp(bytes.data(), data + 4, bytes.size()), 0) << tensor.name;
      (*reader)->forget(data, tensor.bytes);
    }
  }
  fs::resize_file(paths[2], 10);
  std::vector<uint8_t> bytes(64);
  const auto* last = (*reader)->find_tensor("t5");
  EXPECT_FALSE((*reader)->read(static_cast<const uint8_t*>(last->data), bytes).ok());
}

TEST_F(SplitSet, EveryPartOpensTheWholeModel) {
  for (const bool metadata_apart : {false, true}) {
    const auto paths = write(example(), "model", 128, metadata_apart);
    ASSERT_EQ(paths.size(), metadata_apart ? 4U : 3U);
    EXPECT_EQ(fs::path(paths[1]).filename(),
              metadata_apart ? "model-00002-of-00004.gguf" : "model-00002-of-00003.gguf");
    uint64_t bytes = 0;
    for (const std::string& p : paths) bytes += fs::file_size(p);
    for (const std::string& p : paths) {
      auto reader = Reader::open(p);
      ASSERT_TRUE(reader.ok()) << reader.error().message;
      const Reader& r = **reader;
      EXPECT_EQ(r.path(), p);
      EXPECT_EQ(r.file_bytes(), bytes);
      EXPECT_EQ(r.files().size(), paths.size());
      EXPECT_EQ(r.get_int("test.block_count").value(), 7);
      ASSERT_EQ(r.tensors().size(), 6U);
      for (int i = 0; i < 6; ++i) {
        const TensorInfo* t = r.find_tensor("t" + std::to_string(i));
        ASSERT_NE(t, nullptr);
        float value = -1;
        std::memcpy(&value, static_cast<const uint8_t*>(t->data) + 60, 4);
        EXPECT_EQ(value, static_cast<float>(i));
      }
    }
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
}

TEST_F(SplitSet, ATensorLargerThanAPartHasItsOwnPart) {
  EXPECT_EQ(write(example(), "model", 1).size(), 6U);
  EXPECT_EQ(write(example(), "all", 1 << 20).size(), 1U);
  EXPECT_EQ(error(path("all-00001-of-00001.gguf")), "");
}

TEST_F(SplitSet, AMissingPartIsNamed) {
  const auto paths = write(example(), "model", 128);
  fs::remove(paths[1]);
  EXPECT_THAT(error(paths[0]), HasSubstr("is part 1 of 3, and " + paths[1] + " is missing"));
  EXPECT_THAT(error(paths[2]), HasSubstr("is part 3 of 3, and " + paths[1] + " is missing"));
  EXPECT_EQ(Reader::open(paths[0]).error().code, Error::Code::kNotFound);
}

TEST_F(SplitSet, TheErrorForARenamedPartGivesItsName) {
  const auto paths = write(example(), "model", 128);
  fs::rename(paths[0], path("model.gguf"));
  EXPECT_THAT(error(path("model.gguf")), HasSubstr("must end in \"-00001-of-00003.gguf\""));
}

TEST_F(SplitSet, PartsOfAnotherSetAreDetected) {
  const auto paths = write(example(), "model", 128);
  const auto replace = [&](size_t part, const Writer& other, uint64_t max_bytes, size_t with) {
    const auto others = write(other, "other", max_bytes);
    fs::copy_file(paths[part], path("kept"), fs::copy_options::overwrite_existing);
    fs::copy_file(others[with], paths[part], fs::copy_options::overwrite_existing);
    std::string message = error(paths[0]);
    EXPECT_EQ(message.empty(), error(paths[2]).empty());
    fs::copy_file(path("kept"), paths[part], fs::copy_options::overwrite_existing);
    return message;
  };
  EXPECT_THAT(replace(1, example(), 128, 2), HasSubstr("says that it is part 3 of 3"));
  EXPECT_THAT(replace(1, example(), 64, 1), HasSubstr("says that it is part 2 of 6"));
  Writer larger = example();
  const float x = 0;
  ASSERT_TRUE(larger.add_tensor("t6", {1}, DType::kF32, &x, 4).ok());
  EXPECT_THAT(replace(1, larger, 128 + 4, 1), HasSubstr("with 7 tensors in all"));
  EXPECT_EQ(error(paths[0]), "");
}

/// A part with keys and tensors of its own choice.
void write_part(const std::string& file, int number, int tensors, const char* tensor,
                const char* architecture) {
  Writer w;
  w.set_string("general.architecture", architecture);
  w.set_u32("split.no", static_cast<uint32_t>(number));
  w.set_u32("split.count", 2);
  w.set_u32("split.tensors.count", static_cast<uint32_t>(tensors));
  const float x = 0;
  ASSERT_TRUE(w.add_tensor(tensor, {1}, DType::kF32, &x, 4).ok());
  ASSERT_TRUE(w.write(file).ok());
}

TEST_F(SplitSet, ErrorsNameInconsistenciesBetweenParts) {
  const std::string first = split_path(path("m"), 0, 2);
  const std::string second = split_path(path("m"), 1, 2);
  write_part(first, 0, 2, "a", "test");
  write_part(second, 1, 2, "b", "test");
  EXPECT_EQ(error(first), "");
  write_part(second, 1, 2, "b", "best");
  EXPECT_THAT(error(first), HasSubstr("the key 'general.architecture' of " + second + " differs"));
  write_part(second, 1, 2, "a", "test");
  EXPECT_THAT(error(first),
              HasSubstr("tensor 'a' of " + second + " is also in one of the previous parts"));
  write_part(first, 0, 3, "a", "test");
  write_part(second, 1, 3, "b", "test");
  EXPECT_THAT(error(second), HasSubstr("hold 2 tensors, but their keys say 3"));
  std::ofstream(second) << "GGUF";
  EXPECT_THAT(error(first), HasSubstr(second + ": the file ends"));
}

TEST_F(SplitSet, ATruncatedPartIsDetected) {
  const auto paths = write(example(), "model", 128);
  auto reader = Reader::open(paths[0]);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE((*reader)->check_unchanged().ok());
  fs::resize_file(paths[2], 10);
  const Status changed = (*reader)->check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr(paths[2] + " was changed while in use"));
}

}  // namespace
}  // namespace chimere::gguf
