#include "retrieval/chunker.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "retrieval/document.h"

namespace chimere::retrieval {
namespace {

Block heading(int level, std::string text, int64_t line = 0) {
  return {Block::Kind::kHeading, level, std::move(text), line};
}
Block paragraph(std::string text, int64_t line = 0) {
  return {Block::Kind::kText, 0, std::move(text), line};
}

std::string sentences(int n, const std::string& word) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += (i > 0 ? " " : "") + ("This is " + word + " " + std::to_string(i) + ".");
  return text;
}

TEST(Chunker, KeepsHeadingsAndLines) {
  Document document;
  document.blocks = {heading(1, "Tool", 1),      paragraph(sentences(20, "intro"), 3),
                     heading(2, "Options", 7),   paragraph(sentences(20, "option"), 9),
                     heading(3, "Output", 12),   paragraph(sentences(20, "format"), 14),
                     heading(2, "See also", 20), paragraph(sentences(20, "page"), 21)};
  const auto chunks = chunk(document);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0].heading, "Tool");
  EXPECT_EQ(chunks[0].line, 1);
  EXPECT_EQ(chunks[2].heading, "Tool > Options > Output");
  EXPECT_EQ(chunks[2].line, 12);
  EXPECT_EQ(chunks[3].heading, "Tool > See also");
}

TEST(Chunker, JoinsShortSectionsBelowOneHeading) {
  Document document;
  document.blocks = {heading(1, "A"),  paragraph("one"), heading(2, "B"),
                     paragraph("two"), heading(1, "C"),  paragraph(sentences(30, "long"))};
  const auto chunks = chunk(document);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].text.substr(0, 12), "one\nB\n\ntwo\nC");
}

TEST(Chunker, CutsAfterSentencesAndRepeatsTheEnd) {
  Document document;
  document.blocks = {heading(1, "A"), paragraph(sentences(200, "sentence"), 2)};
  const ChunkRules rules;
  const auto chunks = chunk(document, rules);
  ASSERT_GT(chunks.size(), 3U);
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_LE(chunks[i].text.size(), rules.most);
    EXPECT_EQ(chunks[i].text.back(), '.');
    EXPECT_EQ(chunks[i].heading, "A");
    if (i == 0) continue;
    // The first sentence of a chunk is also in the one before.
    const std::string first = chunks[i].text.substr(0, chunks[i].text.find('.') + 1);
    EXPECT_NE(chunks[i - 1].text.find(first), std::string::npos) << first;
  }
}

TEST(Chunker, KeepsWhatFitsIntoOneChunkTogether) {
  Document document;
  document.blocks = {heading(1, "A"), paragraph(sentences(30, "first")),
                     paragraph(sentences(60, "second"))};
  const auto chunks = chunk(document);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_NE(chunks[1].text.find("second 0."), std::string::npos);
  EXPECT_EQ(chunks[0].text.find("second 0."), std::string::npos);
}

/// Every word of random documents is in a chunk, whatever the sizes; no chunk is too large.
TEST(Chunker, LosesNothing) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    Document document;
    std::vector<std::string> words;
    const int blocks = 1 + static_cast<int>(random() % 12);
    for (int b = 0; b < blocks; ++b) {
      Block block;
      block.kind = static_cast<Block::Kind>(1 + random() % 2);
      if (random() % 3 == 0)
        document.blocks.push_back(heading(1 + static_cast<int>(random() % 4), "h"));
      const int n = static_cast<int>(random() % 300);
      for (int w = 0; w < n; ++w) {
        words.push_back("w" + std::to_string(words.size()) + "é" +
                        std::string(random() % 40 == 0 ? 1500 : random() % 5, 'x'));
        block.text += words.back();
        block.text += random() % 7 == 0 ? "\n" : random() % 5 == 0 ? ". " : " ";
      }
      document.blocks.push_back(block);
    }
    ChunkRules rules;
    rules.most = 300 + random() % 1000;
    std::string all;
    for (const Chunk& c : chunk(document, rules)) {
      EXPECT_LE(c.text.size(), rules.most);
      all += c.text + "\n";
    }
    for (const std::string& word : words) {
      const std::string key = word.substr(0, word.find("é"));
      ASSERT_NE(all.find(key + "é"), std::string::npos) << key << " of round " << round;
    }
  }
}

TEST(Chunker, EmptyDocumentsHaveNoChunks) {
  EXPECT_TRUE(chunk({}).empty());
  Document document;
  document.blocks = {heading(1, "only a heading")};
  EXPECT_TRUE(chunk(document).empty());
}

}  // namespace
}  // namespace chimere::retrieval
