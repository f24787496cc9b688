#include "text/spm_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kUnknown = 0, kBos = 1, kBytes = 3, kPieces = kBytes + 256;

/// <unk>, <s>, </s>, 256 bytes, then the pieces with scores -1, -2, ...
Vocabulary vocabulary(const std::vector<std::string>& pieces) {
  Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {2, 3, 3};
  v.scores = {0, 0, 0};
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    v.tokens.emplace_back(text);
    v.types.push_back(6);
    v.scores.push_back(0);
  }
  for (const std::string& piece : pieces) {
    v.tokens.push_back(piece);
    v.types.push_back(1);
    v.scores.push_back(-static_cast<float>(v.tokens.size() - kPieces));
  }
  v.bos = kBos;
  return v;
}

std::unique_ptr<Tokenizer> make(const Vocabulary& v) {
  auto made = Tokenizer::create(v);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *std::move(made);
}

TEST(SpmTokenizer, JoinsByScoreAndThenFromTheLeft) {
  Vocabulary v = vocabulary({"ab", "bc", "abc", "aa", "a", "b", "c", "▁"});
  v.add_space_prefix = false;
  const auto t = make(v);
  const auto id = [&](const char* text) { return t->find(text); };
  EXPECT_THAT(t->encode("abc", false), ElementsAre(id("abc")));
  EXPECT_THAT(t->encode("bbc", false), ElementsAre(id("b"), id("bc")));
  EXPECT_THAT(t->encode("aab", false), ElementsAre(id("a"), id("ab")));
  EXPECT_THAT(t->encode("aaa", false), ElementsAre(id("aa"), id("a")));
  EXPECT_THAT(t->encode("a b", false), ElementsAre(id("a"), id("▁"), id("b")));
}

TEST(SpmTokenizer, TiesGoToTheLeftmostPiece) {
  Vocabulary v = vocabulary({"▁▁", "▁▁▁", "▁▁▁▁", "▁", "a"});
  v.add_space_prefix = false;
  std::fill(v.scores.begin() + kPieces, v.scores.end(), -1e9F);
  const auto t = make(v);
  EXPECT_THAT(t->encode("     a", false), ElementsAre(t->find("▁▁▁▁"), t->find("▁"), t->find("a")));
}

TEST(SpmTokenizer, EncodesUnknownCharactersAsBytes) {
  const auto t = make(vocabulary({"▁a", "a", "▁"}));
  EXPECT_THAT(t->encode("aé", false), ElementsAre(t->find("▁a"), kBytes + 0xC3, kBytes + 0xA9));
  EXPECT_THAT(t->encode("\xFF", false), ElementsAre(t->find("▁"), kBytes + 0xFF));
  Vocabulary without = vocabulary({"▁a", "a", "▁"});
  for (int b = 0; b < 256; ++b) without.types[kBytes + b] = 5;
  EXPECT_THAT(make(without)->encode("aéß", false), ElementsAre(t->find("▁a"), kUnknown));
}

TEST(SpmTokenizer, TextsRoundTrip) {
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const bool prefix : {false, true}) {
    Vocabulary v = vocabulary({"▁t", "▁th", "he", "▁the", "er", "é", "▁", "e", "h", "t", "x▁"});
    v.add_space_prefix = prefix;
    v.tokens.emplace_back("<think>");
    v.types.push_back(4);
    v.scores.push_back(0);
    const auto t = make(v);
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (unsigned n = random() % 20; n > 0; --n) {
        const char* const pieces[] = {" ",       "the",  " the", "é", "日本",
                                      "<think>", "</s>", "\xC3", "\n"};
        text += pieces[random() % std::size(pieces)];
      }
      for (const bool special : {false, true}) {
        const auto ids = t->encode(text, special);
        EXPECT_EQ(t->decode(ids, true), text);
        // Streamed, a text loses no byte and never shows half a character.
        StreamDecoder stream;
        std::string streamed;
        for (const int32_t id : ids) {
          const std::string shown = stream.push(t->token_bytes(id, true));
          EXPECT_TRUE(is_valid_utf8(shown));
          streamed += shown;
        }
        streamed += stream.finish();
        EXPECT_TRUE(is_valid_utf8(streamed));
        if (is_valid_utf8(text) && !prefix) {
          EXPECT_EQ(streamed, text);
        }
      }
    }
  }
}

TEST(SpmTokenizer, AddedTokensAreParsedOnlyWhereAllowed) {
  Vocabulary v = vocabulary({"<", "s", ">", "<s", "s>", "▁"});
  v.add_space_prefix = false;
  const auto t = make(v);
  EXPECT_THAT(t->encode("<s>", true), ElementsAre(kBos));
  // "<s>" would be made of "<s" and ">": ordinary text never becomes a control token.
  EXPECT_THAT(t->encode("<s>", false), ElementsAre(t->find("<s"), t->find(">")));
  // Each piece of text gets a space of its own.
  v.add_space_prefix = true;
  const auto prefixed = make(v);
  EXPECT_THAT(prefixed->encode("s<s>s", true),
              ElementsAre(t->find("▁"), t->find("s"), kBos, t->find("▁"), t->find("s")));
}

TEST(SpmTokenizer, RunsOfSpacesThatAreUserDefinedArePieces) {
  Vocabulary v = vocabulary({"▁", "a", "▁a"});
  v.add_space_prefix = false;
  for (const char* run : {"  ", "   "}) {
    v.tokens.emplace_back(run);
    v.types.push_back(4);
    v.scores.push_back(0);
  }
  const auto t = make(v);
  EXPECT_THAT(t->encode("    a", false), ElementsAre(t->find("   "), t->find("▁a")));
  EXPECT_EQ(t->decode(t->encode("     a", false), false), "     a");
  EXPECT_THAT(t->encode_trusted("▁▁a", {}), ElementsAre(t->find("  "), t->find("a")));
}

TEST(SpmTokenizer, RefusesDamagedVocabularies) {
  const auto message = [](const Vocabulary& v) {
    const auto made = Tokenizer::create(v);
    return made.ok() ? std::string() : made.error().message;
  };
  Vocabulary v = vocabulary({"a"});
  v.scores.pop_back();
  EXPECT_THAT(message(v), HasSubstr("259 scores"));
  v = vocabulary({"a"});
  v.scores[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(v), HasSubstr("not a number"));
  v = vocabulary({"a"});
  v.tokens[5] = "<0x2>";
  EXPECT_THAT(message(v), HasSubstr("not written like <0x0A>"));
}

TEST(SpmTokenizer, LongRunsTakeLinearTime) {
  std::vector<std::string> pieces;
  for (const char* unit : {"a", "▁"}) {
    std::string text;
    for (int n = 1; n <= 16; ++n) pieces.push_back(text += unit);
  }
  const auto t = make(vocabulary(pieces));
  for (const char* unit : {"a", " ", "é", "\xFF", "a "}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    EXPECT_EQ(t->decode(t->encode(text, true), true), text);
  }
}

}  // namespace
}  // namespace chimere::text
