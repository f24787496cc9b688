#include "protocol/base64.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace chimere::protocol {
namespace {

constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

void append_base64(std::string_view bytes, std::string& out) {
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t three = 0;
    for (size_t b = 0; b < 3; ++b) {
      three = three << 8 | (b < left ? static_cast<uint8_t>(bytes[i + b]) : 0U);
    }
    for (size_t d = 0; d < 4; ++d) {
      out += d <= left ? kBase64Digits[three >> (18 - 6 * d) & 63] : '=';
    }
  }
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const size_t digit = kBase64Digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out += static_cast<char>(bits >> n_bits & 0xFF);
  }
  return out;
}

}  // namespace chimere::protocol
