#include "base/file_stream.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <vector>

namespace chimere {
namespace {

class FileStream : public testing::Test {
 protected:
  FileStream() { std::filesystem::create_directories(folder_); }
  ~FileStream() override { std::filesystem::remove_all(folder_); }

  std::vector<uint8_t> content() const {
    auto file = InputFile::open(path_);
    EXPECT_TRUE(file.ok());
    std::vector<uint8_t> bytes(file->remaining());
    EXPECT_TRUE(file->read(bytes).ok());
    EXPECT_EQ(file->remaining(), 0U);
    uint8_t more = 0;
    EXPECT_EQ(file->read({&more, 1}).error().code, Error::Code::kInvalidData);
    return bytes;
  }
  int64_t files_in_folder() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  void write(const std::vector<uint8_t>& bytes) const {
    auto file = AtomicFile::create(path_);
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_TRUE(file->write(bytes).ok());
    ASSERT_TRUE(file->commit().ok());
  }

  std::string folder_ =
      testing::TempDir() + "file_stream_" + std::to_string(reinterpret_cast<uintptr_t>(this));
  std::string path_ = folder_ + "/file";
};

TEST_F(FileStream, OnlyWhatADeadProgramLeftIsAbandoned) {
  auto living = AtomicFile::create(path_);
  ASSERT_TRUE(living.ok());
  ASSERT_EQ(files_in_folder(), 1);
  const std::string partial = std::filesystem::directory_iterator(folder_)->path().string();
  EXPECT_FALSE(remove_abandoned(partial)) << "it is being written";
  ASSERT_TRUE(living->write(std::vector<uint8_t>{1, 2}).ok());
  ASSERT_TRUE(living->commit().ok());
  EXPECT_EQ(content(), (std::vector<uint8_t>{1, 2}));
  EXPECT_FALSE(remove_abandoned(partial)) << "there is none";

  const pid_t writer = fork();
  if (writer == 0) {
    const auto file = AtomicFile::create(path_);
    _exit(file.ok() ? 0 : 1);  // without its destructor, as by a signal
  }
  int status = 1;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(files_in_folder(), 2);
  int removed = 0;
  for (const auto& f : std::filesystem::directory_iterator(folder_)) {
    if (f.path() != path_) removed += remove_abandoned(f.path().string()) ? 1 : 0;
  }
  EXPECT_EQ(removed, 1);
  EXPECT_EQ(content(), (std::vector<uint8_t>{1, 2}));
}

TEST_F(FileStream, CommitReplacesAndDropDoesNot) {
  write({1, 2, 3});
  {
    auto dropped = AtomicFile::create(path_);
    ASSERT_TRUE(dropped.ok());
    ASSERT_TRUE(dropped->write(std::vector<uint8_t>(100000, 9)).ok());
    EXPECT_EQ(content(), (std::vector<uint8_t>{1, 2, 3})) << "the old content until commit()";
  }
  EXPECT_EQ(content(), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(files_in_folder(), 1);
  write({});
  EXPECT_EQ(content(), std::vector<uint8_t>());
  EXPECT_EQ(files_in_folder(), 1);
  struct stat s {};
  ASSERT_EQ(stat(path_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 077, 0U) << "only the owner may read it";
}

TEST_F(FileStream, ImpossiblePlacesAreErrors) {
  EXPECT_EQ(AtomicFile::create(folder_ + "/no/such/folder").error().code, Error::Code::kIo);
  EXPECT_EQ(InputFile::open(path_).error().code, Error::Code::kNotFound);
  EXPECT_EQ(InputFile::open(folder_).error().code, Error::Code::kIo);
  std::filesystem::create_directory(path_);
  auto file = AtomicFile::create(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->commit().error().code, Error::Code::kIo) << "a folder cannot be replaced";
}

/// A limit on file size simulates a full disk.
TEST_F(FileStream, AFullDiskLeavesTheOldContent) {
  write({1, 2, 3});
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto file = AtomicFile::create(path_);
    ASSERT_TRUE(file.ok());
    const Status written = file->write(std::vector<uint8_t>(10000, 9));
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, Error::Code::kIo);
    EXPECT_NE(written.error().message.find(path_), std::string::npos);
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(content(), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(files_in_folder(), 1);
}

}  // namespace
}  // namespace chimere
