#include "text/utf8.h"

#include <algorithm>

namespace chimere::text {

Utf8Char read_utf8(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[at + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Char::Kind::kValid, 1, first};
  int length = 0;
  uint8_t low = 0x80;  // the range of the second byte
  uint8_t high = 0xBF;
  uint32_t code = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    code = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    code = first & 0x0F;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    code = first & 0x07;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {Utf8Char::Kind::kInvalid, 1, 0};
  }
  for (int i = 1; i < length; ++i) {
    if (at + i >= s.size()) return {Utf8Char::Kind::kTruncated, i, 0};
    const uint8_t b = byte(i);
    if (b < low || b > high) return {Utf8Char::Kind::kInvalid, i, 0};
    code = code << 6 | (b & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Char::Kind::kValid, length, code};
}

bool is_valid_utf8(std::string_view s) {
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s, at);
    if (c.kind != Utf8Char::Kind::kValid) return false;
    at += c.length;
  }
  return true;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

ByteAlphabet::ByteAlphabet() {
  std::fill(std::begin(byte_), std::end(byte_), int16_t{-1});
  uint32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
    code_[b] = printable ? static_cast<uint32_t>(b) : next++;
    byte_[code_[b]] = static_cast<int16_t>(b);
  }
}

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

std::string ByteAlphabet::encode(std::string_view bytes) const {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) append_utf8(out, code_of(static_cast<uint8_t>(c)));
  return out;
}

std::string ByteAlphabet::decode(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    const int byte = c.kind == Utf8Char::Kind::kValid ? byte_of(c.code) : -1;
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(text.substr(at, c.length));
    }
    at += c.length;
  }
  return out;
}

}  // namespace chimere::text
