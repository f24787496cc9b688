#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace chimere {
namespace {

using testing::HasSubstr;

constexpr size_t kPages = 64;

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(path_, std::ios::binary) << std::string(kPages * page_ - 7, 'x');
  }
  void TearDown() override { std::filesystem::remove(path_); }

  size_t page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string path_ = testing::TempDir() + "mapped" + std::to_string(std::random_device{}());
};

TEST_F(MappedFileTest, ReadsPastATruncationAreZerosAndAnError) {
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto other = MappedFile::open(path_);
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(file->check_unchanged().ok());
  std::filesystem::resize_file(path_, 8 * page_);
  // Many threads read at once, as in a step.
  std::vector<std::thread> readers;
  std::vector<int> sums(4);
  for (size_t t = 0; t < sums.size(); ++t) {
    readers.emplace_back([&, t] {
      for (size_t p = 0; p < kPages; ++p) sums[t] += file->data()[p * page_ + t] == 'x' ? 1 : 0;
    });
  }
  for (std::thread& reader : readers) reader.join();
  for (const int sum : sums) EXPECT_EQ(sum, 8);
  const Status changed = file->check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr("was changed while in use"));
  EXPECT_FALSE(other->check_unchanged().ok());
}

TEST_F(MappedFileTest, DamageIsReportedEvenIfTheFileIsRestored) {
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file.ok());
  const auto modified = std::filesystem::last_write_time(path_);
  std::filesystem::resize_file(path_, page_);
  EXPECT_EQ(file->data()[20 * page_], 0);
  std::ofstream(path_, std::ios::binary) << std::string(kPages * page_ - 7, 'x');
  std::filesystem::last_write_time(path_, modified);
  const Status changed = file->check_unchanged();
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(changed.error().message, HasSubstr("could not be read"));
  EXPECT_TRUE(MappedFile::open(path_)->check_unchanged().ok());
}

TEST_F(MappedFileTest, MovesWithItsMapping) {
  auto opened = MappedFile::open(path_);
  ASSERT_TRUE(opened.ok());
  const MappedFile file = std::move(opened).value();
  std::filesystem::resize_file(path_, page_);
  EXPECT_EQ(file.data()[20 * page_], 0);
  EXPECT_FALSE(file.check_unchanged().ok());
}

// A fault outside watched mappings ends the process as before.
TEST_F(MappedFileTest, OtherFaultsAreLeftAlone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const auto file = MappedFile::open(path_);
        raise(SIGBUS);
      },
      "");
}

TEST(FaultGuards, EndWithTheirMappings) {
  const std::string path = testing::TempDir() + "guards" + std::to_string(std::random_device{}());
  std::ofstream(path) << "x";
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(MappedFile::open(path).ok()) << i;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace chimere
