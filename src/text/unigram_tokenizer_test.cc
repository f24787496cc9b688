#include "text/unigram_tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace chimere::text {
namespace {

constexpr const char* kMark = "\xE2\x96\x81";

/// The id is the place in the list, behind <unk>.
struct Piece {
  std::string text;
  float score;
};

Vocabulary vocabulary_of(const std::vector<Piece>& pieces) {
  Vocabulary v;
  v.model = "t5";
  v.tokens = {"<unk>"};
  v.scores = {0};
  v.types = {static_cast<int32_t>(TokenType::kUnknown)};
  for (const Piece& piece : pieces) {
    v.tokens.push_back(piece.text);
    v.scores.push_back(piece.score);
    v.types.push_back(static_cast<int32_t>(TokenType::kNormal));
  }
  return v;
}

std::unique_ptr<Tokenizer> tokenizer_of(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::create(std::move(vocabulary));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

using Ids = std::vector<int32_t>;

TEST(UnigramTokenizer, ChoosesTheLargestSumOfScores) {
  // "abc" as a + bc: -3, ab + c: -3.5, abc: -4. The longest piece is not the best division.
  const auto t = tokenizer_of(vocabulary_of({{std::string(kMark) + "a", -1},
                                             {"bc", -2},
                                             {std::string(kMark) + "ab", -1.5},
                                             {"c", -2},
                                             {std::string(kMark) + "abc", -4}}));
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->encode("abc", false), (Ids{1, 2}));
  EXPECT_EQ(t->encode("ab", false), (Ids{3}));
  EXPECT_EQ(t->decode(t->encode("abc ab", false), false), "abc ab");
}

TEST(UnigramTokenizer, SpacesAreMergedAndMarked) {
  Vocabulary v = vocabulary_of({{kMark, -1}, {"a", -1}, {"b", -1}});
  const auto merged = tokenizer_of(v);
  EXPECT_EQ(merged->encode("  a   b ", false), (Ids{1, 2, 1, 3}));
  EXPECT_EQ(merged->encode("   ", false), Ids());
  EXPECT_EQ(merged->encode("", false), Ids());
  v.remove_extra_spaces = false;
  EXPECT_EQ(tokenizer_of(v)->encode("a  b", false), (Ids{1, 2, 1, 1, 3}));
  v.add_space_prefix = false;
  EXPECT_EQ(tokenizer_of(v)->encode("a b", false), (Ids{2, 1, 3}));
}

TEST(UnigramTokenizer, ARunOfUnknownCharactersIsOneTokenOrTheirBytes) {
  Vocabulary v = vocabulary_of({{kMark, -1}, {"a", -1}, {"xy", -1}});
  EXPECT_EQ(tokenizer_of(v)->encode("a\xC3\xA9\xC3\xA8"
                                    "a?",
                                    false),
            (Ids{1, 2, 0, 2, 0}));
  // x alone is unknown, and bytes that are not UTF-8 are U+FFFD.
  EXPECT_EQ(tokenizer_of(v)->encode("xyx\xFF", false), (Ids{1, 3, 0}));
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    v.tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    v.scores.push_back(0);
    v.types.push_back(static_cast<int32_t>(TokenType::kByte));
  }
  const auto t = tokenizer_of(v);
  EXPECT_EQ(t->encode("\xC3\xA9", false), (Ids{1, 4 + 0xC3, 4 + 0xA9}));
  EXPECT_EQ(t->decode(t->encode("a\xC3\xA9", false), false), "a\xC3\xA9");
}

std::string u32(uint32_t v) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(v >> shift & 0xFF);
  return out;
}

/// A map that replaces "A" by "b" and "AB" by nothing.
std::string small_map() {
  constexpr uint32_t kUnits = 512;
  std::vector<uint32_t> units(kUnits, 0);
  const auto offset = [](uint32_t to) { return to << 10; };
  units[0] = offset(0x100);                          // root: child c at 0x100 ^ c
  units[0x100 ^ 'A'] = offset(0x80) | 0x100U | 'A';  // has a value; children at its place ^ 0x80
  const uint32_t below = (0x100 ^ 'A') ^ 0x80;       // 0x1C1
  units[below] = (1U << 31) | 0;                     // replacement 0
  units[below ^ 'B'] = offset(0x20) | 0x100U | 'B';  // "AB"
  units[(below ^ 'B') ^ 0x20] = (1U << 31) | 2;      // replacement 2
  std::string out = u32(kUnits * 4);
  for (const uint32_t unit : units) out += u32(unit);
  return out + std::string("b\0", 2) + std::string("\0", 1);
}

TEST(CharacterMap, ReplacesTheLongestSequence) {
  const auto map = CharacterMap::create(small_map());
  ASSERT_TRUE(map.ok()) << map.error().message;
  EXPECT_EQ(map->match("AC").length, 1U);
  EXPECT_EQ(map->match("AC").replacement, "b");
  EXPECT_EQ(map->match("ABC").length, 2U);
  EXPECT_EQ(map->match("ABC").replacement, "");
  EXPECT_EQ(map->match("BA").length, 0U);
  EXPECT_EQ(map->match("").length, 0U);
  EXPECT_EQ(map->match(std::string("\0A", 2)).length, 0U);
  Vocabulary v = vocabulary_of({{kMark, -1}, {"b", -1}, {"C", -1}});
  v.precompiled_charsmap = small_map();
  EXPECT_EQ(tokenizer_of(v)->encode("AABC", false), (Ids{1, 2, 3}));
}

TEST(CharacterMap, DamagedMapsAreRefusedOrHarmless) {
  const std::string whole = small_map();
  for (const std::string& bytes : {std::string("abc"), u32(0), u32(5) + "abcde", u32(1U << 30)}) {
    EXPECT_FALSE(CharacterMap::create(bytes).ok());
  }
  for (size_t i = 4; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto map = CharacterMap::create(damaged);
      ASSERT_TRUE(map.ok());
      for (const char* text : {"A", "AB", "ABC", "\xFF\xFE"}) {
        EXPECT_LE(map->match(text).length, 3U);
      }
    }
  }
}

TEST(UnigramTokenizer, VocabulariesThatContradictThemselvesAreRefused) {
  Vocabulary v = vocabulary_of({{"a", -1}});
  v.scores.pop_back();
  EXPECT_FALSE(Tokenizer::create(v).ok());
  v.scores.push_back(NAN);
  EXPECT_FALSE(Tokenizer::create(v).ok());
  EXPECT_FALSE(Tokenizer::create(vocabulary_of({})).ok());
}

}  // namespace
}  // namespace chimere::text
