#include "protocol/carried_reasoning.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace chimere::protocol {
namespace {

constexpr std::string_view kName = "chimere-reasoning:";
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

// RFC 4648, section 4.
std::string carry_reasoning(std::string_view reasoning) {
  std::string out(kName);
  out.reserve(out.size() + (reasoning.size() + 2) / 3 * 4);
  for (size_t i = 0; i < reasoning.size(); i += 3) {
    const size_t left = std::min<size_t>(3, reasoning.size() - i);
    uint32_t three = 0;
    for (size_t b = 0; b < 3; ++b) {
      three = three << 8 | (b < left ? static_cast<uint8_t>(reasoning[i + b]) : 0U);
    }
    for (size_t d = 0; d < 4; ++d) {
      out += d <= left ? kDigits[three >> (18 - 6 * d) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> carried_reasoning(std::string_view carried) {
  if (!carried.starts_with(kName)) return std::nullopt;
  carried.remove_prefix(kName.size());
  if (carried.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && carried.ends_with('=')) {
    carried.remove_suffix(1);
    ++padding;
  }
  std::string out;
  out.reserve(carried.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : carried) {
    const size_t digit = kDigits.find(c);
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
