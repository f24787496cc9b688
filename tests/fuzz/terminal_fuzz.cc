// Arbitrary bytes as keys of the line editor and as an answer in Markdown. What is drawn must not
// control the terminal.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "terminal/cells.h"
#include "terminal/editor.h"
#include "terminal/markdown.h"
#include "terminal/screen.h"
#include "text/utf8.h"

namespace terminal = chimere::terminal;

namespace {

constexpr std::string_view kSeeds[] = {
    "hello\x1b[A\x1b[B\x1b[1;5D\x1b[3~\x17\x19\x1f\r",
    "\x1b[200~pasted\r\ntext \xE6\x97\xA5\x1b[201~\x01\x0b\x1by\x14",
    "\x12"
    "fir\x12\x07\x18\x05\x1b\r\\\r\x03\x03\x04",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 e\xCC\x81 \xF0\x9F\x87\xAB\xF0\x9F\x87\xB7\x7f",
    "# Title\n\n- **bold** *it* `code`\n\n```c\nint x; // n\n/* a\n*/\n```\n| a | b "
    "|\n|---|---|\n| 1 | 2 |\n",
    "> quote [l](u) ![i](v) ~~s~~ \\* ***x*** __y__\n1. one\n---\n~~~sql\nSELECT 'x' -- c\n~~~",
    "\x1b]0;title\x07\x1b[2J\xC2\x9B"
    "31m\x9b\r\b",
};

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Whether the text holds no control characters but line feeds and the given sequences of styles
/// and cursor movements.
bool harmless(std::string_view text, std::string_view finals) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b') {
      if (at + 1 >= text.size() || text[at + 1] != '[') return false;
      size_t end = at + 2;
      while (end < text.size() &&
             (std::string_view("0123456789;?").find(text[end]) != std::string_view::npos)) {
        ++end;
      }
      if (end >= text.size() || finals.find(text[end]) == std::string_view::npos) return false;
      at = end + 1;
      continue;
    }
    const auto c = chimere::text::read_utf8(text, at);
    if (c.kind != chimere::text::Utf8Char::Kind::kValid) return false;
    const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);
    if (control && c.code != '\n' && c.code != '\r' && c.code != '\t') return false;
    at += static_cast<size_t>(c.length);
  }
  return true;
}

void edit(std::string_view bytes, size_t step) {
  static terminal::History history;
  if (history.entries().empty()) {
    (void)history.add("first\nentry").ok();
    (void)history.add("second entry").ok();
  }
  terminal::Editor editor(history, [](std::string_view before) {
    terminal::Completions out;
    out.begin = before.size() / 2;
    if (chimere::text::is_valid_utf8(before.substr(0, out.begin))) {
      out.candidates = {{"one"}, {"other\x1b"}};
    } else {
      out.begin = 0;
    }
    return out;
  });
  terminal::KeyDecoder decoder;
  terminal::Screen screen(true);
  for (size_t at = 0; at < bytes.size(); at += step) {
    std::vector<terminal::KeyEvent> keys;
    decoder.push(bytes.substr(at, step), keys);
    if (at % 3 == 0) decoder.flush(keys);
    for (const terminal::KeyEvent& key : keys) (void)editor.handle(key);
    require(chimere::text::is_valid_utf8(editor.text()), "the text is no UTF-8");
    const terminal::Editor::Shown shown = editor.shown();
    require(shown.cursor <= shown.text.size(), "the cursor is outside");
    const chimere::TerminalSize size = {.columns = 1 + static_cast<int>(at % 50),
                                        .rows = 1 + static_cast<int>(at % 7)};
    const std::string search = editor.search_prompt();
    const terminal::Frame frame = {.prompt = search.empty() ? std::string_view("> ") : search,
                                   .continuation = "  ",
                                   .text = shown.text,
                                   .cursor = shown.cursor,
                                   .notes = &editor.notes()};
    require(harmless(screen.draw(frame, size), "ACJmhl"), "a drawn line controls the terminal");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) size = 1024;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t step = size == 0 ? 1 : 1 + data[0] % 7;
  edit(text, step);
  terminal::MarkdownRenderer whole;
  std::string expected = whole.push(text);
  expected += whole.finish();
  require(harmless(expected, "m"), "an answer controls the terminal");
  terminal::MarkdownRenderer pieces;
  std::string out;
  for (size_t at = 0; at < size; at += step) out += pieces.push(text.substr(at, step));
  out += pieces.finish();
  require(out == expected, "the rendering depends on the pieces");
  const std::string visible = terminal::visible(text);
  require(harmless(visible, "") && terminal::text_width(visible) >= 0, "visible text is not");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
