#include "terminal/cells.h"

#include <gtest/gtest.h>

#include <vector>

namespace chimere::terminal {
namespace {

TEST(Cells, WidthsFollowUnicode) {
  EXPECT_EQ(text_width("abc"), 3);
  EXPECT_EQ(text_width("é"), 1);
  EXPECT_EQ(text_width("e\u0301"), 1);  // e and an accent
  EXPECT_EQ(text_width("日本"), 4);
  EXPECT_EQ(text_width("한국"), 4);
  EXPECT_EQ(text_width("\u1112\u1161\u11AB"), 2);  // conjoining Hangul
  EXPECT_EQ(text_width("ｆ"), 2);
  EXPECT_EQ(text_width("🙂"), 2);
  EXPECT_EQ(text_width("👩‍👩‍👧‍👦"), 2);
  EXPECT_EQ(text_width("👍🏽"), 2);
  EXPECT_EQ(text_width("🇫🇷🇩🇪"), 4);
  EXPECT_EQ(text_width("❤\uFE0F"), 2);
  EXPECT_EQ(text_width("\u200B"), 0);
  EXPECT_EQ(text_width("\x1b[A"), 4);  // ^[[A
  EXPECT_EQ(text_width("\xC2\x9B"), 8);
  EXPECT_EQ(text_width("\xFF"), 1);
}

TEST(Cells, ClustersAreFoundFromBothSides) {
  const std::string text = "aé👩‍👧🇫🇷🇩🇪日e\u0301\xFF-\u0301";
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += cluster_at(text, at).length) starts.push_back(at);
  EXPECT_EQ(starts.size(), 9);
  std::vector<size_t> backwards;
  for (size_t at = text.size(); at > 0;) {
    at = cluster_before(text, at);
    backwards.insert(backwards.begin(), at);
  }
  EXPECT_EQ(starts, backwards);
}

TEST(Cells, ControlCharactersBecomeVisible) {
  EXPECT_EQ(visible("a\x1b[31mb\x07\x7F\r"), "a^[[31mb^G^?^M");
  EXPECT_EQ(visible("\xC2\x9B"
                    "31m"),
            "<U+009B>31m");
  EXPECT_EQ(visible("\u202Egnp.exe"), "<U+202E>gnp.exe");
  EXPECT_EQ(visible("a\n\tb"), "a\n\tb");
  EXPECT_EQ(visible("\xC0\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(visible("日 é 🙂"), "日 é 🙂");
}

TEST(Cells, CleanTextIsUtf8WithLineFeeds) {
  EXPECT_EQ(clean_text("a\r\nb\rc\n\xFF\x1b"), "a\nb\nc\n\uFFFD\x1b");
}

}  // namespace
}  // namespace chimere::terminal
