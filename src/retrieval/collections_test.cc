#include "retrieval/collections.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "retrieval/near_duplicates.h"

namespace chimere::retrieval {
namespace {

namespace fs = std::filesystem;

/// Vectors of hashed words: texts that share words are near each other.
class WordEmbedder final : public TextEmbedder {
 public:
  explicit WordEmbedder(std::string identity) : identity_(std::move(identity)) {}
  std::string identity() const override { return identity_; }
  int64_t dimensions() const override { return kDimensions; }
  Result<std::vector<std::vector<float>>> embed(std::span<const std::string> texts) override {
    std::vector<std::vector<float>> out;
    for (const std::string& text : texts) {
      std::vector<float> v(kDimensions, 0.001F);
      std::string word;
      for (size_t i = 0; i <= text.size(); ++i) {
        const char c = i < text.size() ? text[i] : ' ';
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
          word += c;
        } else if (!word.empty()) {
          v[shingles(word).front() % kDimensions] += 1;
          word.clear();
        }
      }
      double sum = 0;
      for (const float x : v) sum += double{x} * x;
      for (float& x : v) x = static_cast<float>(x / std::sqrt(sum));
      out.push_back(std::move(v));
    }
    embedded += static_cast<int>(texts.size());
    return out;
  }
  std::atomic<int> embedded = 0;

 private:
  static constexpr int64_t kDimensions = 64;
  std::string identity_;
};

class LastFirst final : public TextReranker {
 public:
  Result<std::vector<double>> score(const std::string&,
                                    std::span<const std::string> passages) override {
    std::vector<double> scores;
    for (size_t i = 0; i < passages.size(); ++i)
      scores.push_back(static_cast<double>(i) / static_cast<double>(passages.size()));
    return scores;
  }
};

class CollectionsTest : public testing::Test {
 protected:
  CollectionsTest() {
    folder_ = testing::TempDir() + "collections_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(docs());
  }
  ~CollectionsTest() override { fs::remove_all(folder_); }

  std::string docs() const { return folder_ + "/docs"; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(docs() + "/" + name).parent_path());
    std::ofstream(docs() + "/" + name) << text;
  }
  Result<UpdateReport> add(Collections& collections) const {
    const Source source = {Source::Kind::kPath, docs()};
    return collections.add({.name = "c", .owner = ""}, std::span(&source, 1));
  }

  std::string folder_;
  std::shared_ptr<WordEmbedder> embedder_ = std::make_shared<WordEmbedder>("words");
};

const CollectionId kId = {.name = "c", .owner = ""};

TEST_F(CollectionsTest, AddsSearchesUpdatesAndRemoves) {
  write("a.md", "# Cats\n\nA cat sleeps in the sun all day.\n");
  write("b.txt", "Dogs bark at night.\n");
  write("deep/c.md", "# Birds\n\n## Songs\n\nA blackbird sings before dawn.\n");
  write(".hidden", "Not read.\n");
  write("program", std::string("\x7f"
                               "ELF\0\0\0",
                               7));
  Collections collections(folder_ + "/data", embedder_, nullptr);
  auto report = add(collections);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->added, 3);
  EXPECT_EQ(report->n_skipped, 1);
  EXPECT_EQ(report->embedded, 3);
  auto found = collections.search(kId, "when does the blackbird sing?");
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_FALSE(found->passages.empty());
  EXPECT_TRUE(found->by_vectors);
  EXPECT_EQ(found->passages[0].document, docs() + "/deep/c.md");
  EXPECT_EQ(found->passages[0].title, "Birds");
  EXPECT_EQ(found->passages[0].place(), "Birds > Songs, line 3");

  write("b.txt", "Dogs howl at the moon when it is full.\n");
  write("d.txt", "Fish swim.\n");
  fs::remove(docs() + "/a.md");
  report = collections.update(kId);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->added, 1);
  EXPECT_EQ(report->changed, 1);
  EXPECT_EQ(report->removed, 1);
  EXPECT_EQ(report->unchanged, 1);
  EXPECT_EQ(report->embedded, 2);
  found = collections.search(kId, "howl moon");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->passages[0].document, docs() + "/b.txt");
  SearchOptions words;
  words.vectors = false;
  found = collections.search(kId, "cat", words);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->passages.empty());
  EXPECT_EQ(*collections.check(kId), "ok");
  const auto listed = collections.list();
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_EQ((*listed)[0].documents, 3);
  EXPECT_EQ((*listed)[0].embedder, "words");
  EXPECT_TRUE(collections.remove(kId).ok());
  EXPECT_FALSE(collections.search(kId, "fish").ok());
  EXPECT_FALSE(collections.remove(kId).ok());
}

TEST_F(CollectionsTest, AnotherEmbedderMakesItsOwnVectors) {
  write("a.txt", "One document about trains.\n");
  {
    Collections collections(folder_ + "/data", embedder_, nullptr);
    ASSERT_TRUE(add(collections).ok());
  }
  auto other = std::make_shared<WordEmbedder>("others");
  Collections collections(folder_ + "/data", other, nullptr);
  auto found = collections.search(kId, "trains");
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->by_vectors);
  EXPECT_NE(found->note.find("another embedding model"), std::string::npos);
  EXPECT_EQ(found->passages.size(), 1U);
  const auto report = collections.update(kId);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->embedded, 1);
  EXPECT_EQ(report->unchanged, 1);
  found = collections.search(kId, "trains");
  EXPECT_TRUE(found->by_vectors);
  EXPECT_TRUE(found->note.empty());
}

TEST_F(CollectionsTest, KeepsOwnersApart) {
  Collections collections(folder_ + "/data", nullptr, nullptr);
  const CollectionId mine = {.name = "notes", .owner = "alice"};
  const CollectionId theirs = {.name = "notes", .owner = "../bob"};
  ASSERT_TRUE(collections.add_text(mine, "n.md", "# Plan\n\nbuy milk").ok());
  ASSERT_TRUE(collections.add_text(theirs, "n.md", "# Plan\n\nsell milk").ok());
  EXPECT_EQ(collections.search(mine, "milk")->passages[0].text, "buy milk");
  EXPECT_EQ(collections.search(theirs, "milk")->passages[0].text, "sell milk");
  EXPECT_TRUE(collections.list()->empty());
  EXPECT_EQ(collections.list("alice")->size(), 1U);
  ASSERT_TRUE(collections.add_text(mine, "n.md", "# Plan\n\nbuy bread").ok());
  EXPECT_EQ(collections.info(mine)->documents, 1);
  ASSERT_TRUE(collections.remove_document(mine, "n.md").ok());
  EXPECT_EQ(collections.info(mine)->documents, 0);
  EXPECT_EQ(collections.info(theirs)->documents, 1);
  for (const char* name : {"", "../x", ".x", "a/b", "a b"})
    EXPECT_FALSE(collections.add_text({.name = name, .owner = ""}, "n", "text").ok()) << name;
}

TEST_F(CollectionsTest, RerankerDecidesAndDuplicatesGo) {
  const std::string same = "The printer prints many pages quickly and without any noise at all.";
  write("1.txt", same);
  write("2.txt", same + "\n");
  write("3.txt", "A printer that is slow, old and loud; nobody wants it.");
  Collections plain(folder_ + "/data", embedder_, nullptr);
  ASSERT_TRUE(add(plain).ok());
  auto found = plain.search(kId, "printer prints pages");
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->passages.size(), 2U);
  EXPECT_EQ(found->passages[0].document, docs() + "/1.txt");
  Collections reranked(folder_ + "/data", embedder_, std::make_shared<LastFirst>());
  found = reranked.search(kId, "printer prints pages");
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->reranked);
  ASSERT_EQ(found->passages.size(), 2U);
  EXPECT_EQ(found->passages[0].document, docs() + "/3.txt");
  EXPECT_TRUE(found->passages[0].relevance.has_value());
}

TEST_F(CollectionsTest, SearchesRunDuringUpdates) {
  for (int i = 0; i < 40; ++i)
    write(std::to_string(i) + ".txt", "Document number " + std::to_string(i) + " about lamps.\n");
  Collections collections(folder_ + "/data", embedder_, nullptr);
  ASSERT_TRUE(add(collections).ok());
  std::atomic<bool> stop = false;
  std::atomic<int> searches = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto found = collections.search(kId, "lamps");
        ASSERT_TRUE(found.ok()) << found.error().message;
        ASSERT_FALSE(found->passages.empty());
        ++searches;
      }
    });
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 5; ++i)
      write(std::to_string(round * 4 + i) + ".txt",
            "Round " + std::to_string(round) + " changes lamps of document " + std::to_string(i));
    const auto report = collections.update(kId);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }
  while (searches < 3) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(*collections.check(kId), "ok");
}

TEST_F(CollectionsTest, StopsAndContinues) {
  for (int i = 0; i < 10; ++i) write(std::to_string(i) + ".txt", "text " + std::to_string(i));
  Collections collections(folder_ + "/data", embedder_, nullptr);
  const Source source = {Source::Kind::kPath, docs()};
  int polls = 0;
  UpdateOptions options;
  options.interrupted = [&] { return ++polls > 15; };
  const auto stopped = collections.add(kId, std::span(&source, 1), options);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, Error::Code::kCancelled);
  const auto before = collections.info(kId);
  ASSERT_TRUE(before.ok());
  EXPECT_GT(before->documents, 0);
  EXPECT_LT(before->documents, 10);
  ASSERT_TRUE(collections.update(kId).ok());
  EXPECT_EQ(collections.info(kId)->documents, 10);
  EXPECT_EQ(collections.info(kId)->without_vector, 0);
}

}  // namespace
}  // namespace chimere::retrieval
