#include "terminal/layout.h"

#include <gtest/gtest.h>

#include <string>

#include "terminal/screen.h"

namespace chimere::terminal {
namespace {

TEST(Layout, WrapsAsATerminalDoes) {
  const Layout one = lay_out("abc", 3, 2, 10);
  EXPECT_EQ(one.rows.size(), 1);
  EXPECT_EQ(one.cursor_column, 5);
  // A full row: the cursor stands on the next one.
  const Layout full = lay_out("abcdefgh", 8, 2, 10);
  ASSERT_EQ(full.rows.size(), 2);
  EXPECT_EQ(full.cursor_row, 1);
  EXPECT_EQ(full.cursor_column, 0);
  EXPECT_EQ(lay_out("abcdefgh", 7, 2, 10).rows.size(), 1);
  const Layout wrapped = lay_out("abcdefghijkl", 9, 2, 10);
  ASSERT_EQ(wrapped.rows.size(), 2);
  EXPECT_TRUE(wrapped.rows[0].wraps);
  EXPECT_EQ(wrapped.rows[1].begin, 8);
  EXPECT_EQ(wrapped.cursor_column, 1);
}

TEST(Layout, WideCharactersDoNotStraddleTheMargin) {
  const Layout wide = lay_out("a日本", 7, 2, 5);
  ASSERT_EQ(wide.rows.size(), 2);
  EXPECT_EQ(wide.rows[0].end, 4);
  EXPECT_EQ(wide.cursor_column, 2);
}

TEST(Layout, LinesBeginBehindTheIndent) {
  const Layout lines = lay_out("a\n\nb", 2, 2, 10);
  ASSERT_EQ(lines.rows.size(), 3);
  EXPECT_EQ(lines.rows[1].indent, 2);
  EXPECT_EQ(lines.cursor_row, 1);
  EXPECT_EQ(lines.cursor_column, 2);
}

TEST(Layout, TheCursorIsNeverOutside) {
  const std::string text =
      "ab\t日本e\u0301\x1b👩‍👧\n\n0123456789\t\t\xFF"
      "zz\n";
  for (int columns = 1; columns < 30; ++columns) {
    for (size_t cursor = 0; cursor <= text.size(); ++cursor) {
      const Layout layout = lay_out(text, cursor, 2, columns);
      ASSERT_LT(layout.cursor_row, layout.rows.size());
      ASSERT_GE(layout.cursor_column, 0);
      ASSERT_LT(layout.cursor_column, columns) << cursor << " of " << columns;
      size_t at = 0;
      for (const LayoutRow& row : layout.rows) {
        ASSERT_GE(row.begin, at);
        ASSERT_LE(row.begin, row.end);
        at = row.end;
      }
      ASSERT_EQ(at, text.size());
    }
  }
}

TEST(Layout, TheWindowFollowsTheCursor) {
  const std::string text(100, '\n');
  EXPECT_EQ(window_start(lay_out(text, 0, 2, 80), 50, 10), 0);
  EXPECT_EQ(window_start(lay_out(text, 100, 2, 80), 0, 10), 91);
  EXPECT_EQ(window_start(lay_out(text, 55, 2, 80), 50, 10), 50);
  EXPECT_EQ(window_start(lay_out("a", 1, 2, 80), 7, 10), 0);
}

TEST(Screen, DrawsOverWhatItDrew) {
  Screen screen(false);
  const TerminalSize size = {.columns = 20, .rows = 10};
  const Frame frame = {.prompt = "> ", .continuation = "  ", .text = "a\nb", .cursor = 3};
  EXPECT_EQ(screen.draw(frame, size), "\x1b[?25l\r\x1b[J> a\r\n  b\r\x1b[3C\x1b[?25h");
  EXPECT_EQ(screen.draw(frame, size), "\x1b[?25l\x1b[1A\r\x1b[J> a\r\n  b\r\x1b[3C\x1b[?25h");
  EXPECT_EQ(screen.leave(frame, size), "\x1b[1A\r\x1b[J> a\r\n  b\r\n");
}

TEST(Screen, ShowsControlCharacters) {
  Screen screen(false);
  const Frame frame = {.prompt = "> ", .continuation = "  ", .text = "\x1b]0;x\x07", .cursor = 0};
  EXPECT_EQ(screen.leave(frame, {}), "\r\x1b[J> ^[]0;x^G\r\n");
}

TEST(Screen, ALongTextIsShownInPart) {
  Screen screen(false);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  const Frame frame = {.prompt = "> ", .continuation = "  ", .text = text, .cursor = text.size()};
  const std::string drawn = screen.draw(frame, {.columns = 20, .rows = 10});
  EXPECT_EQ(drawn.find("> 0"), std::string::npos);
  EXPECT_NE(drawn.find("  999\r\n"), std::string::npos);
  EXPECT_LT(drawn.size(), 200);
  const std::string left = screen.leave(frame, {.columns = 20, .rows = 10});
  EXPECT_NE(left.find("> 0\r\n"), std::string::npos);
  EXPECT_NE(left.find("and 996 more rows"), std::string::npos);
}

}  // namespace
}  // namespace chimere::terminal
