#include "retrieval/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "retrieval/read_documents.h"

namespace chimere::retrieval {
namespace {

enum class Format { kTarGz, kZip, k7zip };

std::string packed(const std::map<std::string, std::string>& files, Format format) {
  archive* const a = archive_write_new();
  if (format == Format::kTarGz) {
    archive_write_set_format_ustar(a);
    archive_write_add_filter_gzip(a);
  } else if (format == Format::kZip) {
    archive_write_set_format_zip(a);
  } else {
    archive_write_set_format_7zip(a);
  }
  std::vector<char> buffer(32 << 20);
  size_t used = 0;
  archive_write_open_memory(a, buffer.data(), buffer.size(), &used);
  for (const auto& [name, content] : files) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(a, entry);
    archive_write_data(a, content.data(), content.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
  return {buffer.data(), used};
}

/// The documents of some bytes: their names and the text of their first blocks.
Result<std::map<std::string, std::string>> documents(const std::string& name,
                                                     const std::string& bytes) {
  std::map<std::string, std::string> found;
  CHIMERE_CHECK_OK(read_documents(
      name, bytes, "",
      [&](const std::string& document, const Document& content) -> Status {
        found[document] = content.blocks.empty() ? "" : content.blocks[0].text;
        return {};
      },
      [](const std::string&) {}));
  return found;
}

TEST(Archive, ReadsEveryFormat) {
  for (const Format format : {Format::kTarGz, Format::kZip, Format::k7zip}) {
    const std::string bytes = packed({{"a.txt", "alpha"}, {"b/c.md", "# Title\n\nbeta"}}, format);
    const std::string name = format == Format::kTarGz ? "x.tar.gz" : "x.bin";
    const auto found = documents(name, bytes);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->at(name + "!/a.txt"), "alpha");
    EXPECT_EQ(found->at(name + "!/b/c.md"), "Title");
  }
}

TEST(Archive, ReadsArchivesInArchivesUpToALimit) {
  std::string bytes = packed({{"deep.txt", "found"}}, Format::kZip);
  bytes = packed({{"inner.zip", bytes}, {"near.txt", "near"}}, Format::kZip);
  auto found = documents("outer.zip", bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->at("outer.zip!/inner.zip!/deep.txt"), "found");
  bytes = packed({{"middle.zip", bytes}, {"top.txt", "top"}}, Format::kZip);
  found = documents("outer.zip", bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->contains("outer.zip!/middle.zip!/near.txt"));
  EXPECT_EQ(found->count("outer.zip!/middle.zip!/inner.zip!/deep.txt"), 0U);
}

TEST(Archive, LimitsWhatItUnpacks) {
  const std::string zeros(20 << 20, 'a');
  const std::string bomb = packed({{"bomb.txt", zeros}}, Format::kTarGz);
  ASSERT_LT(bomb.size(), zeros.size() / 200);
  ArchiveBudget budget;
  const auto take = [](const std::string&, const std::string&) -> Status { return {}; };
  const auto skip = [](const std::string&) {};
  Status done = unpack(bomb, budget, take, skip);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, Error::Code::kInvalidData);
  EXPECT_NE(done.error().message.find("200 times"), std::string::npos);
  budget = ArchiveBudget();
  budget.ratio = 1e9;
  budget.bytes = 1 << 20;
  EXPECT_FALSE(unpack(bomb, budget, take, skip).ok());
  budget = ArchiveBudget();
  budget.entries = 2;
  EXPECT_FALSE(
      unpack(packed({{"a", "1"}, {"b", "2"}, {"c", "3"}}, Format::kZip), budget, take, skip).ok());
  int skipped = 0;
  budget = ArchiveBudget();
  budget.entry_bytes = 3;
  EXPECT_TRUE(unpack(packed({{"a", "1"}, {"b", "22222"}}, Format::kZip), budget, take,
                     [&](const std::string&) { ++skipped; })
                  .ok());
  EXPECT_EQ(skipped, 1);
}

TEST(Archive, RefusesDamagedOnes) {
  std::string bytes = packed({{"a.txt", std::string(5000, 'x') + "end"}}, Format::kTarGz);
  bytes.resize(bytes.size() / 2);
  EXPECT_FALSE(documents("x.tar.gz", bytes).ok());
  EXPECT_FALSE(documents("x.zip", "PK\x03\x04 nothing").ok());
}

}  // namespace
}  // namespace chimere::retrieval
