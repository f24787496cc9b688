#include "text/word_piece_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace chimere::text {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Vocabulary vocabulary() {
  Vocabulary v;
  v.model = "bert";
  v.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un",   "aff",   "able", "▁a",
              "▁un-",  "▁-",    "▁!",    "▁中",   "▁cafe", "▁café", "s",    "▁straße"};
  v.types = {3, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  return v;
}

std::unique_ptr<Tokenizer> make(const Vocabulary& v) {
  auto made = Tokenizer::create(v);
  EXPECT_TRUE(made.ok());
  return *std::move(made);
}

TEST(WordPieceTokenizer, TakesTheLongestPieces) {
  const auto t = make(vocabulary());
  const auto id = [&](const char* text) { return t->find(text); };
  EXPECT_THAT(t->encode("unaffable", false), ElementsAre(id("▁un"), id("aff"), id("able")));
  EXPECT_THAT(t->encode("  UNaffable\tA! ", false),
              ElementsAre(id("▁un"), id("aff"), id("able"), id("▁a"), id("▁!")));
  // A hyphen is a word of its own, a Chinese character too.
  EXPECT_THAT(t->encode("un-a", false), ElementsAre(id("▁un"), id("▁-"), id("▁a")));
  EXPECT_THAT(t->encode("a中a", false), ElementsAre(id("▁a"), id("▁中"), id("▁a")));
  // One piece missing makes the whole word unknown.
  EXPECT_THAT(t->encode("unaffected a", false), ElementsAre(id("[UNK]"), id("▁a")));
  EXPECT_THAT(t->encode("un▁a", false), ElementsAre(id("[UNK]")));
  EXPECT_EQ(t->decode(t->encode("Unaffable a!", false), false), "unaffable a !");
}

TEST(WordPieceTokenizer, FoldsCaseAndAccentsByTheVocabulary) {
  Vocabulary v = vocabulary();
  const auto t = make(v);
  EXPECT_THAT(t->encode("CAFÉS", false), ElementsAre(t->find("▁cafe"), t->find("s")));
  EXPECT_THAT(t->encode("Straße", false), ElementsAre(t->find("▁straße")));
  v.strip_accents = false;
  EXPECT_THAT(make(v)->encode("CAFÉ", false), ElementsAre(t->find("▁café")));
  v.lowercase = false;
  EXPECT_THAT(make(v)->encode("CAFÉ", false), ElementsAre(t->find("[UNK]")));
}

TEST(WordPieceTokenizer, DropsControlCharactersAndWhatIsNotText) {
  const auto t = make(vocabulary());
  EXPECT_THAT(t->encode("u\x01n\xFF\uFFFD", false), ElementsAre(t->find("▁un")));
  EXPECT_TRUE(t->encode(std::string(3, '\0'), false).empty());
}

TEST(WordPieceTokenizer, LongWordsAreUnknownAndTimeIsLinear) {
  const auto t = make(vocabulary());
  std::string word = "un";
  while (word.size() < 100) word += "s";
  EXPECT_EQ(t->encode(word, false).size(), 99U);
  EXPECT_THAT(t->encode(word + "s", false), ElementsAre(t->find("[UNK]")));
  EXPECT_THAT(t->encode(std::string(1'000'000, 'a'), false), ElementsAre(t->find("[UNK]")));
  EXPECT_THAT(t->encode(std::string(100'000, '!'), false), Each(t->find("▁!")));
}

TEST(WordPieceTokenizer, TextNeverBecomesAControlToken) {
  const auto t = make(vocabulary());
  EXPECT_THAT(t->encode("[CLS]", true), ElementsAre(t->find("[CLS]")));
  const auto ids = t->encode("[CLS] a [SEP]", false);
  EXPECT_TRUE(std::ranges::none_of(ids, [&](int32_t id) { return t->is_control(id); }));
}

}  // namespace
}  // namespace chimere::text
