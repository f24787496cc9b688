#include "terminal/markdown.h"

#include <gtest/gtest.h>

#include "terminal/progress_bar.h"

namespace chimere::terminal {
namespace {

std::string render(std::string_view text) {
  MarkdownRenderer renderer;
  std::string out = renderer.push(text);
  return out + renderer.finish();
}

std::string render_bytewise(std::string_view text) {
  MarkdownRenderer renderer;
  std::string out;
  for (const char c : text) out += renderer.push(std::string_view(&c, 1));
  return out + renderer.finish();
}

/// The text without styles.
std::string plain(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      at = text.find('m', at);
    } else {
      out += text[at];
    }
  }
  return out;
}

TEST(Markdown, Styles) {
  EXPECT_EQ(render("a **b** c"), "a \x1b[1mb\x1b[0m c");
  EXPECT_EQ(render("*b* ***c***"), "\x1b[3mb\x1b[0m \x1b[1m\x1b[3mc\x1b[0m");
  EXPECT_EQ(render("`a*b*`"), "\x1b[36ma*b*\x1b[0m");
  EXPECT_EQ(render("# T *x*"), "\x1b[1;34mT \x1b[3mx\x1b[0m\x1b[1;34m\x1b[0m");
  EXPECT_EQ(render("- a\n* b\n  + c"),
            "\x1b[33m• \x1b[0ma\n\x1b[33m• \x1b[0mb\n  \x1b[33m• \x1b[0mc");
  EXPECT_EQ(render("2. a"), "\x1b[33m2. \x1b[0ma");
  EXPECT_EQ(render("> q"), "\x1b[2m│ q\x1b[0m");
  EXPECT_EQ(plain(render("[name](http://a.b)")), "name (http://a.b)");
  EXPECT_EQ(plain(render("---")), "────────────────────");
  EXPECT_EQ(render("~~a~~"), "\x1b[9ma\x1b[0m");
}

TEST(Markdown, MarkersThatNothingClosesAreText) {
  for (const char* text :
       {"rm *.txt", "2 * 3 * 4", "snake_case_name", "a ** b", "a `b", "**a", "[a] b", "[a](b",
        "x ! y", "_a", "~/x and ~/y", "#include", "1.5 MB", "-1", "100%"}) {
    EXPECT_EQ(plain(render(text)), text);
  }
  EXPECT_EQ(render("\\*a\\*"), "*a*");
}

TEST(Markdown, CodeIsColouredAndComplete) {
  const std::string code = "```python\ndef f(x):  # note\n    return \"a # b\" + 1\n```\nafter";
  EXPECT_EQ(plain(render(code)), code);
  EXPECT_NE(render(code).find("\x1b[35mdef\x1b[0m f"), std::string::npos);
  EXPECT_NE(render(code).find("\x1b[2m# note"), std::string::npos);
  EXPECT_NE(render(code).find("\x1b[32m\"a # b\"\x1b[0m"), std::string::npos);
  const std::string c = "```c\nint x = 1; // n\n/* a\n b */ return;\n```";
  EXPECT_EQ(plain(render(c)), c);
  const std::string unknown = "~~~\n**not bold** `x`\n~~~";
  EXPECT_EQ(plain(render(unknown)), unknown);
  const std::string open = "```sh\nls -l";
  EXPECT_EQ(plain(render(open)), open);
}

TEST(Markdown, TablesAreAligned) {
  EXPECT_EQ(plain(render("| a | b |\n|---|:-:|\n| long **x** | 日 |\nend")),
            "a      │ b\n───────┼───\nlong x │ 日\nend");
}

TEST(Markdown, TextAppearsAtOnce) {
  MarkdownRenderer renderer;
  EXPECT_EQ(renderer.push("Hello wor"), "Hello wor");
  EXPECT_EQ(renderer.push("ld **bo"), "ld ");
  EXPECT_EQ(renderer.push("ld** x"), "\x1b[1mbold\x1b[0m x");
  EXPECT_EQ(renderer.push("\n"), "\n");
  EXPECT_EQ(renderer.push("-"), "");
  EXPECT_EQ(renderer.push(" item"), "\x1b[33m• \x1b[0mitem");
}

TEST(Markdown, TheResultDoesNotDependOnThePieces) {
  const std::string text =
      "# Title\n\nSome **bold *nested* text** and `code`, 日本 é 🙂.\n\n1. one\n2. two\n   - "
      "three\n\n"
      "```js\nconst s = `a\nb`; // done\n```\n| x | y |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n***\n"
      "[l](u) ![i](v) rm *.o \\* ~~no~~ __b__ _i_ tail";
  EXPECT_EQ(render_bytewise(text), render(text));
}

TEST(Markdown, ControlCharactersDoNotReachTheTerminal) {
  const std::string hostile =
      "\x1b]0;title\x07\x1b[2J\x1b[?1049h \x9b"
      "31m\xC2\x9B"
      "2J \x1bP$q\x1b\\ a\rb\x08\x7f `\x1b[31m`\n"
      "```sh\n\x1b]52;c;aGk=\x07\n```\n| \x1b[A | b |\n";
  for (const std::string& out : {render(hostile), render_bytewise(hostile)}) {
    const std::string text = plain(out);
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<uint8_t>(c) >= 0x20) << text;
    EXPECT_EQ(text.find("\xC2\x9B"), std::string::npos);
    EXPECT_NE(text.find("^[]52;c;aGk=^G"), std::string::npos);
  }
}

TEST(Markdown, LongLinesTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "*a _b [d ";
  EXPECT_TRUE(plain(render(text)) == text);
  EXPECT_EQ(plain(render("x" + std::string(100000, '*'))), "x" + std::string(100000, '*'));
}

TEST(ProgressBar, FitsTheTerminal) {
  const Progress progress = {.what = "Pulling", .done = 42, .total = 100, .per_second = 1};
  EXPECT_EQ(progress_bar(progress, 79),
            "Pulling  42% [############..................] 42 B of 100 B, 1 B/s, 58 s left");
  EXPECT_LE(progress_bar(progress, 30).size(), 30);
  EXPECT_EQ(progress_bar({.done = 5, .bytes = false}, 79), "5");
  EXPECT_EQ(duration_text(5000), "1 h 23 min");
}

}  // namespace
}  // namespace chimere::terminal
