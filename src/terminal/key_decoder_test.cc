#include "terminal/key_decoder.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::terminal {
namespace {

std::vector<KeyEvent> decode(std::string_view bytes, bool flush = false) {
  KeyDecoder decoder;
  std::vector<KeyEvent> keys;
  decoder.push(bytes, keys);
  if (flush) decoder.flush(keys);
  return keys;
}

std::vector<KeyEvent> decode_bytewise(std::string_view bytes) {
  KeyDecoder decoder;
  std::vector<KeyEvent> keys;
  for (const char c : bytes) decoder.push(std::string_view(&c, 1), keys);
  return keys;
}

KeyEvent character(const char* text) { return {.key = Key::kCharacter, .text = text}; }
KeyEvent control(const char* text) { return {.key = Key::kCharacter, .text = text, .ctrl = true}; }
KeyEvent alt(const char* text) { return {.key = Key::kCharacter, .text = text, .alt = true}; }

TEST(KeyDecoder, KnowsTheKeysOfTerminals) {
  const struct {
    const char* bytes;
    KeyEvent event;
  } cases[] = {
      {"a", character("a")},
      {"é", character("é")},
      {"🙂", character("🙂")},
      {"\x01", control("a")},
      {"\x1f", control("_")},
      {"\x1b"
       "b",
       alt("b")},
      {"\r", {.key = Key::kEnter}},
      {"\n", {.key = Key::kEnter}},
      {"\x1b\r", {.key = Key::kEnter, .alt = true}},
      {"\x1b[13;2u", {.key = Key::kEnter, .shift = true}},
      {"\x1b[27;2;13~", {.key = Key::kEnter, .shift = true}},
      {"\x1b[97;5u", control("a")},
      {"\t", {.key = Key::kTab}},
      {"\x1b[Z", {.key = Key::kBackTab}},
      {"\x7f", {.key = Key::kBackspace}},
      {"\x08", {.key = Key::kBackspace}},
      {"\x1b\x7f", {.key = Key::kBackspace, .alt = true}},
      {"\x1b[A", {.key = Key::kUp}},
      {"\x1bOA", {.key = Key::kUp}},
      {"\x1b[D", {.key = Key::kLeft}},
      {"\x1b[1;5D", {.key = Key::kLeft, .ctrl = true}},
      {"\x1b[1;3C", {.key = Key::kRight, .alt = true}},
      {"\x1b\x1b[C", {.key = Key::kRight, .alt = true}},
      {"\x1b[H", {.key = Key::kHome}},
      {"\x1b[1~", {.key = Key::kHome}},
      {"\x1b[7~", {.key = Key::kHome}},
      {"\x1bOF", {.key = Key::kEnd}},
      {"\x1b[4~", {.key = Key::kEnd}},
      {"\x1b[3~", {.key = Key::kDelete}},
      {"\x1b[3;5~", {.key = Key::kDelete, .ctrl = true}},
      {"\x1b[5~", {.key = Key::kPageUp}},
      {"\x1b[15~", {.key = Key::kOther}},
      {"\x1b[[A", {.key = Key::kOther}},
      {"\x1b[200~x\ry\x1b[A\xff\x1b[201~", {.key = Key::kPaste, .text = "x\ny\x1b[A\uFFFD"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.bytes));
    const auto keys = decode(c.bytes);
    ASSERT_EQ(keys.size(), 1);
    EXPECT_EQ(static_cast<int>(keys[0].key), static_cast<int>(c.event.key));
    EXPECT_EQ(keys[0].text, c.event.text);
    EXPECT_TRUE(keys[0] == c.event);
    EXPECT_TRUE(decode_bytewise(c.bytes) == keys);
    const auto two = decode(std::string(c.bytes) + "z");
    ASSERT_EQ(two.size(), 2);
    EXPECT_TRUE(two[1] == character("z"));
  }
}

TEST(KeyDecoder, WaitsForTheRestOfAKey) {
  EXPECT_TRUE(decode("\x1b").empty());
  EXPECT_TRUE(decode("\x1b", true) == std::vector{KeyEvent{.key = Key::kEscape}});
  EXPECT_TRUE(decode("\x1b[1;", true).empty());
  EXPECT_TRUE(decode("\xE6\x97").empty());
  EXPECT_TRUE(decode("\x1b[200~never ends", true).empty());
}

TEST(KeyDecoder, GarbageIsDropped) {
  EXPECT_TRUE(decode("\xFF\xC2\x9B").empty());
  const auto keys = decode("\x1b[" + std::string(1000, '1') + "x");
  EXPECT_TRUE(keys.back() == character("x"));
}

TEST(KeyDecoder, APasteMayBeLarge) {
  const std::string text(1 << 20, 'p');
  KeyDecoder decoder;
  std::vector<KeyEvent> keys;
  const std::string bytes = "\x1b[200~" + text + "\x1b[201~q";
  for (size_t at = 0; at < bytes.size(); at += 4093) {
    decoder.push(std::string_view(bytes).substr(at, 4093), keys);
  }
  ASSERT_EQ(keys.size(), 2);
  EXPECT_EQ(keys[0].text, text);
}

}  // namespace
}  // namespace chimere::terminal
