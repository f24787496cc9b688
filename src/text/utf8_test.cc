#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "base/fresh_seed.h"
#include "text/tokenizer.h"

namespace chimere::text {
namespace {

TEST(Utf8, ReadsEveryCodePointBack) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string s;
    append_utf8(s, code);
    const Utf8Char c = read_utf8(s, 0);
    ASSERT_EQ(c.kind, Utf8Char::Kind::kValid) << code;
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(static_cast<size_t>(c.length), s.size());
    for (size_t cut = 1; cut < s.size(); ++cut) {
      ASSERT_EQ(read_utf8(s.substr(0, cut), 0).kind, Utf8Char::Kind::kTruncated) << code;
    }
  }
}

TEST(Utf8, RefusesIllFormedSequences) {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(read_utf8(bad, 0).kind, Utf8Char::Kind::kInvalid);
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

TEST(ByteAlphabet, MapsEveryByteOnce) {
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  const std::string written = ByteAlphabet::get().encode(all);
  EXPECT_TRUE(is_valid_utf8(written));
  EXPECT_EQ(ByteAlphabet::get().decode(written), all);
  EXPECT_EQ(ByteAlphabet::get().encode(" \n"), "ĠĊ");
}

TEST(StreamDecoder, NeverReturnsPartOfACharacter) {
  const std::string text = "naïve 漢字 👩‍🚀 end";
  const auto seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    StreamDecoder decoder;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 3;
      const std::string piece = decoder.push(text.substr(at, n));
      EXPECT_TRUE(is_valid_utf8(piece));
      out += piece;
      at += n;
    }
    EXPECT_EQ(out + decoder.finish(), text);
  }
}

TEST(StreamDecoder, ReplacesInvalidBytes) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("a\xF0\x9F"), "a");
  EXPECT_EQ(decoder.push("b\xFF\xE2\x82"), "\uFFFDb\uFFFD");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace chimere::text
