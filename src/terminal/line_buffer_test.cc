#include "terminal/line_buffer.h"

#include <gtest/gtest.h>

namespace chimere::terminal {
namespace {

LineBuffer with(const char* text) {
  LineBuffer buffer;
  buffer.insert(text);
  return buffer;
}

TEST(LineBuffer, MovesByCharactersAsUsersSeeThem) {
  LineBuffer buffer = with("a👩‍👧e\u0301");
  EXPECT_TRUE(buffer.left());
  EXPECT_TRUE(buffer.left());
  EXPECT_EQ(buffer.cursor(), 1);
  EXPECT_TRUE(buffer.right());
  EXPECT_TRUE(buffer.erase_before());
  EXPECT_EQ(buffer.text(), "ae\u0301");
  EXPECT_TRUE(buffer.erase_after());
  EXPECT_EQ(buffer.text(), "a");
  EXPECT_FALSE(buffer.right());
  buffer.text_start();
  EXPECT_FALSE(buffer.left());
  EXPECT_FALSE(buffer.erase_before());
}

TEST(LineBuffer, MovesByWordsAndLines) {
  LineBuffer buffer = with("one two-three\nfour");
  buffer.word_left();
  EXPECT_EQ(buffer.cursor(), 14);
  buffer.word_left();
  EXPECT_EQ(buffer.cursor(), 8);
  buffer.line_start();
  EXPECT_EQ(buffer.cursor(), 0);
  buffer.word_right();
  EXPECT_EQ(buffer.cursor(), 3);
  EXPECT_TRUE(buffer.line_down());
  EXPECT_EQ(buffer.cursor(), 17);
  EXPECT_FALSE(buffer.line_down());
  EXPECT_TRUE(buffer.line_up());
  EXPECT_EQ(buffer.cursor(), 3);
  buffer.line_end();
  EXPECT_EQ(buffer.cursor(), 13);
  buffer.line_down();
  EXPECT_EQ(buffer.cursor(), 18);  // a shorter line
}

TEST(LineBuffer, KillsAndYanks) {
  LineBuffer buffer = with("one two three");
  buffer.kill_word_before();
  buffer.kill_word_before();
  EXPECT_EQ(buffer.text(), "one ");
  buffer.yank();  // adjacent kills are one
  EXPECT_EQ(buffer.text(), "one two three");
  buffer.line_start();
  buffer.kill_word_after();
  buffer.line_end();
  buffer.yank();
  EXPECT_EQ(buffer.text(), " two threeone");
  buffer.yank_next();
  EXPECT_EQ(buffer.text(), " two threetwo three");
  buffer.line_start();
  buffer.kill_to_line_end();
  EXPECT_TRUE(buffer.empty());
  LineBuffer lines = with("a\nb");
  lines.text_start();
  lines.kill_to_line_end();
  lines.kill_to_line_end();  // at the end of a line, its line feed
  EXPECT_EQ(lines.text(), "b");
  lines.text_end();
  lines.kill_to_line_start();
  EXPECT_TRUE(lines.empty());
  lines.yank();
  EXPECT_EQ(lines.text(), "b");
}

TEST(LineBuffer, ExchangesAndChangesCase) {
  LineBuffer buffer = with("ab");
  buffer.transpose();
  EXPECT_EQ(buffer.text(), "ba");
  buffer.left();
  buffer.transpose();
  EXPECT_EQ(buffer.text(), "ab");
  LineBuffer word = with("one two");
  word.text_start();
  word.change_case(LineBuffer::Case::kTitle);
  word.change_case(LineBuffer::Case::kUpper);
  EXPECT_EQ(word.text(), "One TWO");
}

TEST(LineBuffer, UndoTakesBackRunsOfTyping) {
  LineBuffer buffer;
  for (const char* c : {"a", "b", "c"}) buffer.insert(c);
  buffer.erase_before();
  buffer.erase_before();
  buffer.undo();
  EXPECT_EQ(buffer.text(), "abc");
  buffer.undo();
  EXPECT_EQ(buffer.text(), "");
  buffer.undo();
  EXPECT_EQ(buffer.text(), "");
}

}  // namespace
}  // namespace chimere::terminal
