#include "base/memory_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/mapped_file.h"

namespace chimere {
namespace {

TEST(MemoryFile, ReadersOpenItByItsPath) {
  std::vector<uint8_t> bytes(100'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  const MemoryFile file(bytes);
  const auto mapped = MappedFile::open(file.path());
  ASSERT_TRUE(mapped.ok()) << mapped.error().message;
  ASSERT_EQ(mapped->size(), bytes.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), mapped->data()));
  EXPECT_TRUE(mapped->check_unchanged().ok());
  std::filesystem::resize_file(file.path(), 10);
  EXPECT_FALSE(mapped->check_unchanged().ok());
}

TEST(MemoryFile, AMappingOutlivesIt) {
  MappedFile mapped;
  {
    const MemoryFile file(std::vector<uint8_t>{1, 2, 3});
    mapped = MappedFile::open(file.path()).value();
  }
  ASSERT_EQ(mapped.size(), 3);
  EXPECT_EQ(mapped.data()[2], 3);
  EXPECT_TRUE(mapped.check_unchanged().ok());
}

TEST(MemoryFile, MayBeEmpty) {
  const MemoryFile file({});
  EXPECT_EQ(MappedFile::open(file.path())->size(), 0);
}

}  // namespace
}  // namespace chimere
