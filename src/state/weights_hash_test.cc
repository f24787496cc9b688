#include "state/weights_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace chimere::state {
namespace {

namespace fs = std::filesystem;

struct Hashed {
  Hash128 hash;
  int64_t files_read = 0;
  bool at_once = false;
};

class WeightsHashTest : public ::testing::Test {
 protected:
  WeightsHashTest()
      : folder_(::testing::TempDir() + "chimere-hash-" + std::to_string(std::random_device{}())) {
    fs::create_directories(folder_);
    write("a.gguf", 9'000'001);
    write("b.gguf", 70);
  }
  ~WeightsHashTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, size_t bytes) const {
    std::ofstream(path(name), std::ios::binary) << std::string(bytes, 'w');
  }
  FileIdentity identity(const std::string& name) const {
    return MappedFile::open(path(name))->identity().value();
  }
  /// Changes a byte; size and modification time stay as they are.
  void change_byte(const std::string& name, std::streamoff at) const {
    const FileIdentity before = identity(name);
    const fs::file_time_type modified = fs::last_write_time(path(name));
    // A write within the same tick of the file system's clock would not change the ctime.
    do {
      std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(at);
      file.put('x');
      file.close();
      fs::last_write_time(path(name), modified);
    } while (identity(name).changed_ns == before.changed_ns);
    ASSERT_EQ(identity(name).modified_ns, before.modified_ns);
    ASSERT_EQ(identity(name).size, before.size);
  }
  /// Hashes the named files as a process that starts `seconds_later` after their last change.
  Hashed hash(const std::vector<std::string>& names, int64_t seconds_later = 10) const {
    std::vector<MappedFile> files;
    int64_t last = 0;
    for (const std::string& name : names) {
      files.push_back(MappedFile::open(path(name)).value());
      last = std::max(last, files.back().identity()->changed_ns);
    }
    const auto weights =
        WeightsHash::start(files, {kept_, [=] { return last + seconds_later * 1'000'000'000; }});
    const bool at_once = weights->ready();
    const Hash128 value = weights->get().value();
    return {value, weights->files_read(), at_once};
  }
  std::vector<fs::path> entries() const {
    return {fs::directory_iterator(kept_), fs::directory_iterator()};
  }

  const std::string folder_;
  const std::string kept_ = folder_ + "/state/weights";
};

TEST_F(WeightsHashTest, EveryByteOfAllFilesCounts) {
  const Hash128 both = hash({"a.gguf", "b.gguf"}).hash;
  EXPECT_EQ(hash({"a.gguf", "b.gguf"}).hash, both);
  EXPECT_NE(hash({"b.gguf", "a.gguf"}).hash, both);
  const Hash128 alone = hash({"a.gguf"}).hash;
  EXPECT_NE(alone, both);
  for (const std::streamoff at : {0L, 5'000'000L, 9'000'000L}) {
    const Hash128 before = hash({"a.gguf"}).hash;
    change_byte("a.gguf", at);
    EXPECT_NE(hash({"a.gguf"}).hash, before) << at;
  }
  change_byte("b.gguf", 69);
  EXPECT_NE(hash({"a.gguf", "b.gguf"}).hash, both);
}

TEST_F(WeightsHashTest, UnchangedFilesAreNotReadAgain) {
  const Hashed first = hash({"a.gguf", "b.gguf"});
  EXPECT_EQ(first.files_read, 2);
  const Hashed again = hash({"a.gguf", "b.gguf"});
  EXPECT_EQ(again.files_read, 0);
  EXPECT_TRUE(again.at_once);
  EXPECT_EQ(again.hash, first.hash);
  // A changed file is read again, and its entry replaced.
  change_byte("b.gguf", 5);
  EXPECT_EQ(hash({"a.gguf", "b.gguf"}).files_read, 1);
  EXPECT_EQ(hash({"a.gguf", "b.gguf"}).files_read, 0);
  EXPECT_EQ(entries().size(), 2U);
  // A file is also read again if only its ctime changed.
  const int64_t before = identity("a.gguf").changed_ns;
  do {
    fs::permissions(path("a.gguf"), fs::perms::owner_read | fs::perms::owner_write);
  } while (identity("a.gguf").changed_ns == before);
  const Hashed touched = hash({"a.gguf"});
  EXPECT_EQ(touched.files_read, 1);
}

TEST_F(WeightsHashTest, AFileThatHasJustChangedIsReadAgain) {
  EXPECT_EQ(hash({"b.gguf"}, 1).files_read, 1);
  EXPECT_EQ(hash({"b.gguf"}, 10).files_read, 1);
  EXPECT_EQ(hash({"b.gguf"}, 1).files_read, 0);
}

TEST_F(WeightsHashTest, DamagedEntriesAreReplaced) {
  const Hash128 good = hash({"b.gguf"}).hash;
  const fs::path entry = entries().at(0);
  std::ifstream in(entry, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto put = [&](const std::string& bytes) {
    std::ofstream(entry, std::ios::binary) << bytes;
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    put(damaged);
    const Hashed again = hash({"b.gguf"});
    ASSERT_EQ(again.hash, good) << at;
    ASSERT_EQ(again.files_read, 1) << at;
    ASSERT_EQ(hash({"b.gguf"}).files_read, 0) << "it is good again";
  }
  put(whole.substr(0, 30));
  EXPECT_EQ(hash({"b.gguf"}).files_read, 1);
  put("");
  EXPECT_EQ(hash({"b.gguf"}).hash, good);
}

TEST_F(WeightsHashTest, WithoutAFolderEveryRunReads) {
  std::ofstream(folder_ + "/state") << "no folder can be made here";
  const Hashed first = hash({"b.gguf"});
  EXPECT_EQ(first.files_read, 1);
  EXPECT_EQ(hash({"b.gguf"}).files_read, 1);
  const auto known = WeightsHash::known(first.hash);
  EXPECT_TRUE(known->ready());
  EXPECT_EQ(known->get().value(), first.hash);
}

TEST_F(WeightsHashTest, AFileCutWhileItIsInUseIsAnError) {
  std::vector<MappedFile> files;
  files.push_back(MappedFile::open(path("a.gguf")).value());
  fs::resize_file(path("a.gguf"), 100);
  const auto weights = WeightsHash::start(files, {});
  EXPECT_EQ(weights->get().error().code, Error::Code::kIo);
}

TEST_F(WeightsHashTest, GivenUpItTellsThoseWhoWait) {
  std::vector<MappedFile> files;
  fs::resize_file(path("a.gguf"), int64_t{1} << 40);  // takes no space and minutes to read
  files.push_back(MappedFile::open(path("a.gguf")).value());
  const auto weights = WeightsHash::start(files, {});
  EXPECT_FALSE(weights->ready());
  weights->abandon();
  EXPECT_EQ(weights->get().error().code, Error::Code::kCancelled);
}

}  // namespace
}  // namespace chimere::state
