#include "engram/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "base/fresh_seed.h"
#include "base/memory_file.h"

namespace chimere::engram {
namespace {

using Documents = std::vector<std::vector<int32_t>>;
constexpr uint16_t kDay = 20000;
constexpr uint64_t kTokenizer = 0x1234;

class TableTest : public testing::Test {
 protected:
  std::string path(const char* name = "a") const {
    return testing::TempDir() + "table_test_" + name + ".engr";
  }
  std::string save(const Counts& counts, std::span<const float> gate = {}) const {
    EXPECT_TRUE(write_table(path(), counts, kTokenizer, gate).ok());
    return path();
  }
  static std::vector<char> bytes_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void put(const std::string& file, const std::vector<char>& bytes) {
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static Counts counts_of(const Documents& documents, int order) {
    return Counts::of(documents, order, {"manual", kDay, kOne}).value();
  }
};

TEST_F(TableTest, ContainsExactlyTheContextsOfItsTexts) {
  const unsigned seed = fresh_seed();
  const testing::ScopedTrace trace(__FILE__, __LINE__, seed);
  std::mt19937 rng(seed);
  std::uniform_int_distribution<int32_t> token(0, 30);
  Documents documents(3, std::vector<int32_t>(400));
  for (auto& d : documents) {
    for (auto& t : d) t = token(rng);
  }
  const int order = 4;
  std::map<std::vector<int32_t>, std::map<uint32_t, float>> counted;
  for (const auto& d : documents) {
    for (size_t i = 1; i < d.size(); ++i) {
      for (size_t k = 1; k <= 4 && k <= i; ++k) {
        const auto end = d.begin() + static_cast<std::ptrdiff_t>(i);
        ++counted[{end - static_cast<std::ptrdiff_t>(k), end}][static_cast<uint32_t>(*end)];
      }
    }
  }
  const auto table =
      open_table(save(counts_of(documents, order)), {.tokenizer = kTokenizer}).value();
  EXPECT_EQ(table->info().contexts, counted.size() + 1) << "including the empty one";
  std::vector<Evidence> found;
  for (const auto& [context, successors] : counted) {
    ASSERT_TRUE(table->find(context, found).ok());
    ASSERT_EQ(found.size(), context.size());
    EXPECT_EQ(found.back().distinct, successors.size());
    if (context.size() < 4) continue;  // shorter ones have continuation counts
    std::map<uint32_t, float> got;
    for (const Counted& c : found.back().top) got[c.token] = c.count;
    EXPECT_EQ(got, successors);
  }
  for (int i = 0; i < 2000; ++i) {
    const std::vector<int32_t> context = {token(rng), token(rng), token(rng)};
    ASSERT_TRUE(table->find(context, found).ok());
    size_t longest = 0;
    while (longest < 3 &&
           counted.contains(
               {context.end() - static_cast<std::ptrdiff_t>(longest) - 1, context.end()})) {
      ++longest;
    }
    EXPECT_EQ(found.size(), longest);
  }
}

TEST_F(TableTest, ReadsBackWhatWasWritten) {
  const Counts counts = counts_of({{1, 2, 3, 1, 2, 4}, {2, 3}}, 3);
  const std::vector<float> gate = {1, 2, 3};
  const std::string file = save(counts, gate);
  uint64_t tokenizer = 0;
  std::vector<float> read_gate;
  const Counts again = read_counts(file, tokenizer, read_gate).value();
  EXPECT_EQ(tokenizer, kTokenizer);
  EXPECT_EQ(read_gate, gate);
  EXPECT_EQ(again.sources(), std::vector<std::string>{"manual"});
  const auto before = bytes_of(file);
  ASSERT_TRUE(write_table(path("b"), again, tokenizer, read_gate).ok());
  EXPECT_EQ(bytes_of(path("b")), before);
}

/// The worked example of docs/engram-format.md.
TEST_F(TableTest, HasTheBytesOfTheDocumentedExample) {
  const auto bytes = bytes_of(save(counts_of({{7, 8, 7, 8}}, 1)));
  ASSERT_EQ(bytes.size(), 256 + 16 * 4 + 4 * 16 + 4 * 16 + 1 * 8 + 8);
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  EXPECT_EQ(number(0), 0x454E4752U);
  EXPECT_EQ(number(4), 2U);
  EXPECT_EQ(number(8), 1U);
  EXPECT_EQ(number(16), kTokenizer);
  const size_t nodes = 256 + 64;
  EXPECT_EQ(number(nodes + 16), 0U) << "context (7): parent";
  EXPECT_EQ(number(nodes + 16 + 4), 7U);
  EXPECT_EQ(number(nodes + 16 + 8), 2U) << "its entries follow the root's two";
  const size_t entries = nodes + 64;
  EXPECT_EQ(number(entries), 7U) << "the root: 7 and 8, twice each";
  EXPECT_EQ(number(entries + 4), 2 * kOne);
  EXPECT_EQ(number(entries + 12), 1U) << "one distinct preceding token: 8";
  EXPECT_EQ(number(entries + 32), 8U) << "after 7";
}

TEST_F(TableTest, IsBoundToItsTokenizer) {
  const std::string file = save(counts_of({{1, 2}}, 1));
  EXPECT_TRUE(open_table(file, {.tokenizer = kTokenizer}).ok());
  EXPECT_TRUE(open_table(file, {}).ok());
  const auto other = open_table(file, {.tokenizer = 99, .assume_tokenizer = true});
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, testing::HasSubstr("another tokenizer"));
}

TEST_F(TableTest, EveryTruncationAndChangedByteIsAnError) {
  std::vector<uint8_t> whole;
  VectorSink sink(whole);
  ASSERT_TRUE(write_table(sink, counts_of({{1, 2, 3, 1, 2}}, 2), kTokenizer, {}).ok());
  const std::span<const uint8_t> good(whole);
  for (size_t size = 0; size < good.size(); ++size) {
    const MemoryFile cut(good.first(size));
    const auto table = open_table(cut.path(), {});
    ASSERT_FALSE(table.ok()) << size;
    EXPECT_FALSE(table.error().message.empty());
  }
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = whole;
    bad[i] ^= 0x40;
    const MemoryFile file(bad);
    EXPECT_FALSE(open_table(file.path(), {}).ok()) << i;
  }
}

TEST_F(TableTest, AFileTruncatedInUseIsAnErrorNotACrash) {
  Documents documents(1, std::vector<int32_t>(20000));
  std::mt19937 rng(1);
  for (auto& t : documents[0]) t = static_cast<int32_t>(rng() % 500);
  const std::string file = save(counts_of(documents, 2));
  const auto table = open_table(file, {}).value();
  std::vector<Evidence> found;
  const std::vector<int32_t> history(documents[0].begin(), documents[0].begin() + 10);
  ASSERT_TRUE(table->find(history, found).ok());
  std::filesystem::resize_file(file, 4096);
  for (size_t i = 2; i < 500; ++i) {
    const auto status = table->find(std::span(documents[0]).first(i), found);
    ASSERT_FALSE(status.ok());
  }
}

TEST_F(TableTest, AFileReplacedInUseKeepsItsContent) {
  const std::string file = save(counts_of({{1, 2}}, 1));
  const auto before = open_table(file, {}).value();
  ASSERT_TRUE(write_table(file, counts_of({{1, 3}}, 1), kTokenizer, {}).ok());
  const auto after = open_table(file, {}).value();
  const std::vector<int32_t> history = {1};
  std::vector<Evidence> found;
  ASSERT_TRUE(before->find(history, found).ok());
  EXPECT_EQ(found[0].top[0].token, 2);
  ASSERT_TRUE(after->find(history, found).ok());
  EXPECT_EQ(found[0].top[0].token, 3);
}

TEST_F(TableTest, DecayedEntriesWeighHalf) {
  const Counts decayed = counts_of({{1, 2}}, 1).decayed(kDay + 45);
  const auto table = open_table(save(decayed), {}).value();
  EXPECT_EQ(table->info().as_of, kDay + 45);
  std::vector<Evidence> found;
  const std::vector<int32_t> history = {1};
  ASSERT_TRUE(table->find(history, found).ok());
  EXPECT_EQ(found[0].top[0].count, 0.5F);
  EXPECT_EQ(found[0].total, 0.5F);
}

TEST_F(TableTest, OtherFilesAreRejectedWithARemedy) {
  put(path("text"), {'h', 'e', 'l', 'l', 'o', ' ', 'y', 'o', 'u'});
  EXPECT_THAT(open_table(path("text"), {}).error().message, testing::HasSubstr("engram build"));
  EXPECT_EQ(open_table(path("absent"), {}).error().code, Error::Code::kNotFound);
}

}  // namespace
}  // namespace chimere::engram
