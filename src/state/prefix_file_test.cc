#include "state/prefix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>

#include "base/file_stream.h"
#include "base/memory_file.h"
#include "base/no_descriptors.h"
#include "state/prefix_folder.h"

namespace chimere::state {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// One attention layer of 64 bytes a page of 4 tokens, one recurrent layer of 128.
std::unique_ptr<StateStore> make_store(uint64_t model = 1) {
  StateSpec s;
  s.components = {
      {.kind = ComponentSpec::Kind::kPagedKv, .layer = 1, .bytes = 64},
      {.kind = ComponentSpec::Kind::kRecurrent, .layer = 0, .bytes = 128, .pending_bytes = 64}};
  s.page_tokens = 4;
  s.max_pages = 8;
  s.max_slots = 8;
  s.model_key = model;
  return StateStore::create(s).value();
}

StateImage make_image(int32_t position, int32_t first_page, std::mt19937& random) {
  const auto bytes = [&](size_t n) {
    std::vector<uint8_t> b(n);
    for (uint8_t& x : b) x = static_cast<uint8_t>(random() % 16);
    return std::make_shared<const std::vector<uint8_t>>(std::move(b));
  };
  const auto unfolded = static_cast<int32_t>(random() % 3);
  return {position, first_page, bytes(static_cast<size_t>((position + 3) / 4 - first_page) * 64),
          bytes(128 + static_cast<size_t>(unfolded) * 64), unfolded};
}

class PrefixFile : public ::testing::Test {
 protected:
  PrefixFile()
      : folder_(::testing::TempDir() + "chimere-prefix-" + std::to_string(std::random_device{}())) {
    fs::create_directories(folder_);
  }
  ~PrefixFile() override { fs::remove_all(folder_); }

  /// Opens the folder as a starting process does.
  std::vector<FoundPrefix> open(int64_t max_bytes = 1 << 20, int64_t life = 0) {
    EXPECT_TRUE(make_prefix_folder(folder_).ok());
    opened_ = PrefixFolder::open({folder_, max_bytes, life}, layout_).value();
    path_ = opened_->path();
    auto content = opened_->trim();
    EXPECT_TRUE(content.ok());
    content_ = content.ok() ? std::move(*content) : PrefixFolder::Content();
    PrefixFolder::New found = opened_->find_new();
    log_.insert(log_.end(), found.rejected.begin(), found.rejected.end());
    return std::move(found.files);
  }
  PrefixName write(int32_t tokens, const std::string& scope = "ann") {
    PrefixName name{scope, std::vector<int32_t>(static_cast<size_t>(tokens), tokens)};
    EXPECT_TRUE(write_prefix_file(path_, name, make_image(tokens, 0, random_), layout_).ok());
    return name;
  }
  std::string file(const PrefixName& name) const { return path_ + "/" + name.file_name(); }

  std::string folder_;
  std::string path_;  ///< of the model
  std::unique_ptr<PrefixFolder> opened_;
  PrefixFolder::Content content_;
  std::vector<std::string> log_;
  std::mt19937 random_{7};
  const std::unique_ptr<StateStore> store_ = make_store();
  const ImageLayout layout_{*store_, {1, 2}};
};

TEST_F(PrefixFile, GivesBackWhatWasWritten) {
  open();
  const PrefixName name{"ann", {1, 2, 3, 4, 5, 6}};
  const StateImage image = make_image(6, 1, random_);
  const auto size = write_prefix_file(path_, name, image, layout_);
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(static_cast<uintmax_t>(*size), fs::file_size(file(name)));
  const auto all = read_prefix_file(path_, name, true, layout_);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->position, 6);
  EXPECT_EQ(all->first_page, 1);
  EXPECT_EQ(*all->pages, *image.pages);
  EXPECT_EQ(*all->slot, *image.slot);
  const auto pages = read_prefix_file(path_, name, false, layout_);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(*pages->pages, *image.pages);
  EXPECT_EQ(pages->slot, nullptr);
  const auto found = open();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].info.name.scope, "ann");
  EXPECT_EQ(found[0].info.name.tokens, name.tokens);
  EXPECT_EQ(found[0].info.first_page, 1);
  // Access for the owner only.
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file(name)).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(PrefixFile, EveryDamageIsNoticed) {
  open();
  const PrefixName name = write(6);
  std::ifstream in(file(name), std::ios::binary);
  const std::vector<uint8_t> good{std::istreambuf_iterator<char>(in), {}};
  // The name is a link to a memory file, so that thousands of versions need no disk writes.
  std::optional<MemoryFile> current;
  const auto put = [&](const std::vector<uint8_t>& bytes) {
    current.emplace(bytes);
    fs::remove(file(name));
    fs::create_symlink(current->path(), file(name));
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= static_cast<uint8_t>(1U << (i % 8));
    put(bad);
    ASSERT_FALSE(read_prefix_file(path_, name, true, layout_).ok()) << "byte " << i;
    put({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i)});
    ASSERT_FALSE(read_prefix_file(path_, name, true, layout_).ok()) << "cut at " << i;
  }
  put(good);
  EXPECT_TRUE(read_prefix_file(path_, name, true, layout_).ok());
  PrefixName other = name;
  other.scope = "bob";
  fs::copy_file(file(name), file(other));
  const auto stolen = read_prefix_file(path_, other, true, layout_);
  ASSERT_FALSE(stolen.ok());
  EXPECT_THAT(stolen.error().message, HasSubstr("another prefix"));
  EXPECT_FALSE(read_prefix_file(path_, name, true, ImageLayout(*make_store(2), {1, 2})).ok());
  EXPECT_FALSE(read_prefix_file(path_, name, true, ImageLayout(*store_, {1, 3})).ok());
}

TEST_F(PrefixFile, OpeningRemovesWhatIsOfNoUse) {
  open();
  const PrefixName good = write(5);
  const PrefixName damaged = write(6);
  fs::resize_file(file(damaged), 100);
  std::ofstream(file(write(7)) + ".Xy12ab") << "half written";
  PrefixName copy = good;
  copy.scope = "bob";
  fs::copy_file(file(good), file(copy));
  std::ofstream(path_ + "/notes.txt") << "not ours";
  const auto found = open();
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(log_.size(), 2U);
  size_t files = 0;
  for (const auto& f : fs::directory_iterator(path_)) files += f.is_regular_file();
  EXPECT_EQ(files, 3U);  // two states and the notes
  EXPECT_TRUE(fs::exists(path_ + "/notes.txt"));
}

TEST_F(PrefixFile, FilesWithOtherNamesStay) {
  open();
  std::vector<fs::path> others;
  const auto put = [&](const std::string& in, const char* name) {
    fs::create_directories(in);
    others.push_back(fs::path(in) / name);
    std::ofstream(others.back()) << "not ours";
  };
  for (const char* name : {"notes.prefix.txt", "0123456789abcdef.prefix"})
    put(folder_ + "/abc", name);
  for (const char* name :
       {"notes.prefix.txt", "0123456789abcdef.prefix.txt", "0123456789abcdef.prefix.Xy12a.",
        "a0123456789abcdef.prefix", "0123456789ABCDEF.prefix", "0123456789abcdef.prefix2"})
    put(path_, name);
  const fs::path partial = fs::path(path_) / "0123456789abcdef.prefix.Xy12ab";
  std::ofstream(partial) << "half written";
  open(0);
  EXPECT_EQ(purge_prefix_folder(folder_, 0).value().files, 0);
  EXPECT_THAT(log_, ::testing::IsEmpty());
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(PrefixFile, AFolderThatCannotBeListedIsNoEmptyOne) {
  open();
  write(5);
  EXPECT_EQ(opened_->find_new().files.size(), 1U);
  // Listing a folder that is a link to itself fails, also for root.
  fs::rename(folder_, folder_ + "-away");
  fs::create_symlink(folder_, folder_);
  EXPECT_FALSE(opened_->trim().ok());
  EXPECT_FALSE(opened_->find_new().complete);
  fs::remove(folder_);
  fs::rename(folder_ + "-away", folder_);
  EXPECT_EQ(opened_->trim()->names.size(), 1U);
  EXPECT_EQ(opened_->find_new().files.size(), 0U) << "it was found before";
}

TEST_F(PrefixFile, WhatAnotherProgramIsWritingStays) {
  open();
  const PrefixName name = write(5);
  auto writing = AtomicFile::create(file(name));
  ASSERT_TRUE(writing.ok());
  ASSERT_TRUE(writing->write(std::vector<uint8_t>(1000)).ok());
  EXPECT_EQ(open().size(), 1U);
  EXPECT_GE(content_.bytes, static_cast<int64_t>(1000 + fs::file_size(file(name))));
  EXPECT_EQ(open(1).size(), 0U) << "the limit takes what is complete";
  EXPECT_EQ(purge_prefix_folder(folder_, 0).value().files, 0);
  EXPECT_TRUE(writing->commit().ok());
  EXPECT_TRUE(fs::exists(file(name)));
}

TEST_F(PrefixFile, FilesOfOtherProgramsAreFoundOnce) {
  open();
  const PrefixName first = write(5);
  EXPECT_EQ(opened_->find_new().files.size(), 1U);
  EXPECT_EQ(opened_->find_new().files.size(), 0U);
  const PrefixName second = write(6);
  std::ofstream(file(write(7)), std::ios::app) << "damaged";
  PrefixFolder::New found = opened_->find_new();
  ASSERT_EQ(found.files.size(), 1U);
  EXPECT_EQ(found.files[0].info.name.tokens, second.tokens);
  EXPECT_EQ(found.rejected.size(), 1U);
  fs::remove(file(first));
  EXPECT_EQ(opened_->find_new().files.size(), 0U);
  write(5);
  EXPECT_EQ(opened_->find_new().files.size(), 1U) << "it went and came back";
}

TEST_F(PrefixFile, AFileThatCannotBeReadNowIsTriedAgain) {
  open();
  const PrefixName name = write(5);
  PrefixFolder::New none;
  bool trimmed = true;
  {
    const NoDescriptors no_descriptors;
    none = opened_->find_new();
    trimmed = opened_->trim().ok();
  }
  EXPECT_FALSE(none.complete);
  EXPECT_FALSE(trimmed);
  EXPECT_TRUE(none.files.empty());
  EXPECT_TRUE(fs::exists(file(name)));
  EXPECT_EQ(opened_->find_new().files.size(), 1U);
}

TEST_F(PrefixFile, UsesDecideWhatGoesFirst) {
  open();
  const PrefixName a = write(4);
  const PrefixName b = write(5);
  const PrefixName c = write(6);
  opened_->touch(std::vector{c.file_name(), a.file_name(), b.file_name()});
  const auto two = static_cast<int64_t>(fs::file_size(file(a)) + fs::file_size(file(b)));
  // A use before the recorded one is ignored; a later one, even in the future, is recorded.
  opened_->note_uses(std::vector<PrefixFolder::Use>{{b.file_name(), 1000}});
  auto left = open(two);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].info.name.tokens, a.tokens);
  EXPECT_EQ(left[1].info.name.tokens, b.tokens);
  const int64_t later = unix_seconds() + 100;
  opened_->note_uses(
      std::vector<PrefixFolder::Use>{{b.file_name(), later}, {a.file_name(), later}});
  left = open(two);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].info.name.tokens, b.tokens);
  EXPECT_EQ(left[1].info.name.tokens, a.tokens);
}

TEST_F(PrefixFile, AFolderThatCannotBeWrittenIsNamedWithTheRemedy) {
  EXPECT_TRUE(make_prefix_folder(folder_ + "/a/b").ok());
  EXPECT_EQ(fs::status(folder_ + "/a/b").permissions(), fs::perms::owner_all);
  EXPECT_TRUE(fs::is_empty(folder_ + "/a/b"));
  std::ofstream(folder_ + "/file") << "x";
  const Status refused = make_prefix_folder(folder_ + "/file/prefix");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr(folder_ + "/file/prefix"));
  EXPECT_THAT(refused.error().message, HasSubstr("--state-folder"));
}

TEST_F(PrefixFile, OldAndTooManyFilesGoOldestFirst) {
  open();
  const auto now = fs::file_time_type::clock::now();
  std::vector<PrefixName> names;
  for (int32_t i = 0; i < 4; ++i) {
    names.push_back(write(4 + i));
    fs::last_write_time(file(names.back()), now - std::chrono::hours(10 * (4 - i)));
  }
  EXPECT_EQ(open(1 << 20, 35 * 3600).size(), 3U);  // 40 hours are too many
  opened_->touch(std::vector{names[1].file_name()});
  const auto two =
      static_cast<int64_t>(fs::file_size(file(names[3])) + fs::file_size(file(names[1])));
  const auto left = open(two);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].info.name.tokens, names[3].tokens);
  EXPECT_EQ(left[1].info.name.tokens, names[1].tokens);
  EXPECT_TRUE(log_.empty());
}

TEST_F(PrefixFile, APurgeTakesTheCachesFilesAlone) {
  EXPECT_EQ(purge_prefix_folder(folder_ + "/none", 0).value().files, 0);
  open();
  const PrefixName old = write(4);
  write(5);
  fs::last_write_time(file(old), fs::file_time_type::clock::now() - std::chrono::hours(2));
  std::ofstream(folder_ + "/keys.json") << "{}";
  EXPECT_EQ(purge_prefix_folder(folder_, 3600).value().files, 1);
  const auto purged = purge_prefix_folder(folder_, 0);
  EXPECT_EQ(purged->files, 1);
  EXPECT_GT(purged->bytes, 0);
  EXPECT_TRUE(fs::exists(folder_ + "/keys.json"));
}

}  // namespace
}  // namespace chimere::state
