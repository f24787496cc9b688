#include "base/output_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace chimere {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string fresh_path(const char* name) {
  std::string path = ::testing::TempDir() + "chimere-output-" + name;
  (void)std::remove(path.c_str());
  return path;
}

TEST(OutputFile, ContinuesWhereItStopped) {
  const std::string path = fresh_path("append");
  {
    auto file = OutputFile::append_to(path);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->size(), 0);
    ASSERT_TRUE(file->write("ab").ok());
    EXPECT_EQ(file->size(), 2);
  }
  auto file = OutputFile::append_to(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 2);
  ASSERT_TRUE(file->write("cd").ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(content(path), "abcd");
  ASSERT_TRUE(file->clear().ok());
  ASSERT_TRUE(file->write("x").ok());
  EXPECT_EQ(content(path), "x");
  const std::string published = fresh_path("published");
  ASSERT_TRUE(publish_file(path, published).ok());
  EXPECT_EQ(content(published), "x");
  EXPECT_EQ(content(path), "");
  EXPECT_FALSE(publish_file(path, published).ok());
  EXPECT_EQ(content(published), "x");
}

TEST(OutputFile, HasOneWriter) {
  const std::string path = fresh_path("locked");
  const auto first = OutputFile::append_to(path);
  ASSERT_TRUE(first.ok());
  const auto second = OutputFile::append_to(path);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("Another program"), std::string::npos);
}

TEST(OutputFile, DistinguishesAFullDiskFromOtherErrors) {
  auto full = OutputFile::append_to("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->write("x").error().code, Error::Code::kOutOfSpace);
  EXPECT_EQ(OutputFile::append_to("/nonexistent/file").error().code, Error::Code::kIo);
}

}  // namespace
}  // namespace chimere
