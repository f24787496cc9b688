#include "wrap_text.h"

#include <gtest/gtest.h>

namespace chimere::app {
namespace {

TEST(WrapText, RowsEndBeforeTheColumn) {
  EXPECT_EQ(wrap_text("one two  three\nfour", 0, 13, 0), "one two three\nfour");
  EXPECT_EQ(wrap_text("one two three", 2, 12, 7), "one\n  two three");
  EXPECT_EQ(wrap_text("", 4, 20, 4), "");
  EXPECT_EQ(wrap_text("schön grün", 0, 10, 0), "schön grün");
}

TEST(WrapText, LongWordsAreCut) {
  EXPECT_EQ(wrap_text("a 0123456789abcdef z", 2, 10, 0), "a\n  01234567\n  89abcdef\n  z");
}

TEST(WrapText, ListRows) {
  EXPECT_EQ(list_row("run", "Answers a prompt", 8, 20), "  run   Answers a\n        prompt\n");
  EXPECT_EQ(list_row("detokenize", "Text", 8, 20), "  detokenize\n        Text\n");
}

}  // namespace
}  // namespace chimere::app
