#include "engram/legacy_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "base/fresh_seed.h"
#include "base/memory_file.h"

namespace chimere::engram {
namespace {

using Documents = std::vector<std::vector<int32_t>>;

/// Derived by hand from the description of the format. Contexts of two tokens, 16 slots. The hashes
/// end in 0 for (1, 4) and in f for (1, 11) and (2, 8): of the latter two, the second one finds
/// slot 15 occupied, continues to slot 0, which is occupied too, and ends in slot 1.
const Documents kTexts = {{1, 11, 5}, {1, 11, 7}, {1, 11, 5}, {2, 8, 3}, {1, 4, 9}};
const std::vector<std::pair<size_t, std::vector<uint8_t>>> kPieces = {
    {0, {0x52, 0x47, 0x4e, 0x45,  // magic 0x454E4752
         1,    0,    0,    0,     // version
         2,    0,    0,    0,     // order
         16,   0,    0,    0,     // slots
         3,    0,    0,    0}},   // entries
    {20 + 0 * 16, {0x60, 0xfd, 0x53, 0xc4, 0x07, 0x81, 0xe2, 0x09, 0, 0, 0, 0, 1, 0, 0, 0}},
    {20 + 1 * 16, {0x8f, 0xb2, 0xa6, 0xef, 0x86, 0xe6, 0x92, 0xe6, 32, 0, 0, 0, 1, 0, 0, 0}},
    {20 + 15 * 16, {0xdf, 0x09, 0x7a, 0xd1, 0x84, 0x95, 0x92, 0x69, 12, 0, 0, 0, 3, 0, 0, 0}},
    {20 + 16 * 16, {1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0,                          // (1, 4): 9 once
                    2, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0,  // (1, 11)
                    1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0}}};                       // (2, 8)

std::vector<uint8_t> fixture() {
  std::vector<uint8_t> bytes(20 + 16 * 16 + 44, 0);
  for (const auto& [at, piece] : kPieces)
    std::ranges::copy(piece, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

class LegacyTableTest : public testing::Test {
 protected:
  /// The path of a file with these bytes; it is valid until the next call.
  std::string write(const std::vector<uint8_t>& bytes) {
    file_.emplace(bytes);
    return file_->path();
  }

 private:
  std::optional<MemoryFile> file_;
};

TEST_F(LegacyTableTest, HashIsFnv1a) {
  EXPECT_EQ(legacy_hash({}), 0xcbf29ce484222325ULL);
  EXPECT_EQ(legacy_hash(std::vector<int32_t>{1, 11}), 0x69929584d17a09dfULL);
}

TEST_F(LegacyTableTest, WritesTheBytesDerivedByHand) {
  EXPECT_EQ(legacy_bytes(legacy_content(kTexts, 2)).value(), fixture());
}

TEST_F(LegacyTableTest, ReadsAndRewritesTheSameBytes) {
  const LegacyContent content = read_legacy(write(fixture())).value();
  EXPECT_EQ(content.order, 2);
  ASSERT_EQ(content.entries.size(), 3);
  EXPECT_EQ(legacy_bytes(content).value(), fixture());
}

TEST_F(LegacyTableTest, KeepsAnyOrderOfInsertion) {
  // The original program inserts contexts in random order.
  LegacyContent content = legacy_content(kTexts, 2);
  std::ranges::reverse(content.entries);
  const auto bytes = legacy_bytes(content).value();
  EXPECT_NE(bytes, fixture());
  EXPECT_EQ(legacy_bytes(read_legacy(write(bytes)).value()).value(), bytes);
}

TEST_F(LegacyTableTest, FindsThroughCollisions) {
  const auto table = open_table(write(fixture()), {}).value();
  EXPECT_EQ(table->info().version, 1);
  EXPECT_EQ(table->info().contexts, 3);
  std::vector<Evidence> found;
  const auto top = [&](std::vector<int32_t> history) {
    EXPECT_TRUE(table->find(history, found).ok());
    return found.empty() ? -1 : static_cast<int32_t>(found[0].top[0].token);
  };
  EXPECT_EQ(top({1, 4}), 9);
  EXPECT_EQ(top({2, 8}), 3);
  EXPECT_EQ(top({6, 6, 1, 11}), 5);
  EXPECT_EQ(found[0].total, 3);
  EXPECT_EQ(found[0].top[1].token, 7);
  EXPECT_EQ(top({8, 2}), -1);
  EXPECT_EQ(top({11}), -1);
}

TEST_F(LegacyTableTest, NeedsAssumeTokenizer) {
  const std::string path = write(fixture());
  const auto refused = open_table(path, {.tokenizer = 5});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("--assume-tokenizer"));
  EXPECT_TRUE(open_table(path, {.tokenizer = 5, .assume_tokenizer = true}).ok());
}

TEST_F(LegacyTableTest, AgreesWithCountingOnRandomTexts) {
  const unsigned seed = fresh_seed();
  const testing::ScopedTrace trace(__FILE__, __LINE__, seed);
  std::mt19937 rng(seed);
  Documents texts(5);
  for (auto& t : texts) {
    t.resize(300);
    for (auto& token : t) token = std::uniform_int_distribution<int32_t>(0, 6)(rng);
  }
  const auto table = open_table(write(legacy_bytes(legacy_content(texts, 3)).value()), {}).value();
  std::map<std::vector<int32_t>, std::map<uint32_t, float>> counted;
  for (const auto& t : texts) {
    for (size_t i = 3; i < t.size(); ++i) {
      const auto end = t.begin() + static_cast<std::ptrdiff_t>(i);
      ++counted[{end - 3, end}][static_cast<uint32_t>(*end)];
    }
  }
  EXPECT_EQ(table->info().contexts, counted.size());
  std::vector<Evidence> found;
  for (const auto& [context, successors] : counted) {
    ASSERT_TRUE(table->find(context, found).ok());
    ASSERT_EQ(found.size(), 1);
    std::map<uint32_t, float> got;
    for (const Counted& c : found[0].top) got[c.token] = c.count;
    EXPECT_EQ(got, successors);
  }
}

TEST_F(LegacyTableTest, DamagedFilesAreErrors) {
  const std::vector<uint8_t> good = fixture();
  for (size_t size = 0; size < good.size(); ++size) {
    const auto cut =
        open_table(write({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}), {});
    EXPECT_FALSE(cut.ok()) << size;
  }
  auto wild = good;
  wild[20 + 8] = 0xff;  // an offset beyond the end
  wild[20 + 9] = 0xff;
  EXPECT_FALSE(open_table(write(wild), {}).ok());
  wild = good;
  wild[16] = 4;  // one entry too many
  EXPECT_FALSE(open_table(write(wild), {}).ok());
}

}  // namespace
}  // namespace chimere::engram
