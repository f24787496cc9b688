#include "text/unicode.h"

#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

TEST(Unicode, ReturnsCategories) {
  EXPECT_EQ(category('A'), Category::kLu);
  EXPECT_EQ(category(0x1C5), Category::kLt);
  EXPECT_EQ(category(0x301), Category::kMn);
  EXPECT_EQ(category(0x4E00), Category::kLo);
  EXPECT_EQ(category(0x9FFC), Category::kLo);
  EXPECT_EQ(category(0x378), Category::kCn);
  EXPECT_EQ(category(0x10FFFF), Category::kCn);
  EXPECT_EQ(category(0x10FFFD), Category::kCo);
  EXPECT_TRUE(is_letter(0x3B1) && is_number(0x2167) && is_punctuation(0x3002) && is_other(0x200B));
  EXPECT_FALSE(is_letter('1') || is_number('a') || is_punctuation('+') || is_other(' '));
}

TEST(Unicode, MapsCase) {
  EXPECT_EQ(upper_case(0xDF), "SS");
  EXPECT_EQ(title_case(0xDF), "Ss");
  EXPECT_EQ(lower_case(0x130), "i\u0307");
  EXPECT_EQ(upper_case(0x1C6), "Ǆ");
  EXPECT_EQ(title_case(0x1C6), "ǅ");
  EXPECT_EQ(lower_case(0x10400), "\U00010428");
  EXPECT_EQ(lower_case('1'), "1");
}

TEST(Unicode, Normalises) {
  struct Case {
    std::string text, composed, decomposed;
  };
  for (const Case& c : std::vector<Case>{
           {"abc", "abc", "abc"},
           {"e\u0301", "\u00e9", "e\u0301"},
           {"\u1E69", "\u1E69", "s\u0323\u0307"},
           {"s\u0307\u0323", "\u1E69", "s\u0323\u0307"},  // marks change places
           {"a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b",
            "a\u05ae\u0300\u0300\u0315b"},
           {"\uAC01", "\uAC01", "\u1100\u1161\u11A8"},
           {"\u1100\u1161\u11A8\u11A8", "\uAC01\u11A8", "\u1100\u1161\u11A8\u11A8"},
           {"\u212B\u2126", "\u00C5\u03A9", "A\u030A\u03A9"},
           {"\u0958", "\u0915\u093C", "\u0915\u093C"},  // excluded from composition
           {"\uFB01", "\uFB01", "\uFB01"},              // compatibility forms stay
           {"\u0301a", "\u0301a", "\u0301a"},
           {"\U0001D15E", "\U0001D157\U0001D165", "\U0001D157\U0001D165"},
           {"e\xFF\u0301", "e\xFF\u0301", "e\xFF\u0301"},  // what is not UTF-8 separates
       }) {
    EXPECT_EQ(nfc(c.text), c.composed) << c.text;
    EXPECT_EQ(nfd(c.text), c.decomposed) << c.text;
  }
}

TEST(Unicode, NormalFormsAreStable) {
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      const uint32_t blocks[] = {0x41, 0xC0, 0x300, 0x1100, 0xAC00, 0x1E00, 0x900, 0x1D150};
      append_utf8(text, blocks[random() % std::size(blocks)] + random() % 0x70);
    }
    EXPECT_EQ(nfc(nfc(text)), nfc(text));
    EXPECT_EQ(nfd(nfd(text)), nfd(text));
    EXPECT_EQ(nfd(nfc(text)), nfd(text));
    EXPECT_EQ(nfc(nfd(text)), nfc(text));
  }
}

}  // namespace
}  // namespace chimere::text
