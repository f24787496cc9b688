#include "recap.h"

#include <gtest/gtest.h>

namespace chimere::app {
namespace {

TEST(ShortenToRows, ShortTextsAreWholeAndLongOnesEndInDots) {
  EXPECT_EQ(shorten_to_rows("", 3, 2, 20), "");
  EXPECT_EQ(shorten_to_rows("one\n\n  two ", 3, 2, 20), "one two");
  EXPECT_EQ(shorten_to_rows("one two three four", 2, 2, 12), "one two\n  three four");
  EXPECT_EQ(shorten_to_rows("one two three four five", 2, 2, 12), "one two\n  three ...");
  EXPECT_EQ(shorten_to_rows("a 日本語日本語日", 2, 0, 12), "a\n日本語日 ...");
  EXPECT_EQ(shorten_to_rows("http://example.org/a", 2, 2, 12), "http:/ ...");
  EXPECT_EQ(shorten_to_rows("\x1b[2J", 2, 2, 20), "^[[2J");
}

TEST(Recap, TheLastTwoTurnsWithoutReasoning) {
  const std::vector<text::ChatMessage> messages = {
      {.role = "system", .content = "Be brief."},
      {.role = "user", .content = "first"},
      {.role = "assistant", .content = "1"},
      {.role = "user", .content = "second"},
      {.role = "assistant", .content = "2"},
      {.role = "user", .content = "third"},
      {.role = "assistant", .content = "<think>\nhm\n</think>\n\nthree"}};
  EXPECT_EQ(recap(messages, "</think>", 80), "> second\n  2\n> third\n  three");
  EXPECT_EQ(recap({messages[0], messages[1]}, "</think>", 80), "> first");
  EXPECT_EQ(recap({}, "</think>", 80), "");
}

}  // namespace
}  // namespace chimere::app
