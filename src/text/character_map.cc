#include "text/character_map.h"

namespace chimere::text {
namespace {

constexpr size_t kUnitBytes = 4;
constexpr uint32_t kValueBit = 1U << 31;

uint32_t read_u32(const std::string& bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = kUnitBytes; i > 0; --i) {
    out = out << 8 | static_cast<uint8_t>(bytes[at + i - 1]);
  }
  return out;
}

uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & (1U << 9)) >> 6); }

}  // namespace

Result<CharacterMap> CharacterMap::create(const std::string& bytes) {
  CharacterMap out;
  if (bytes.empty()) return out;
  const uint32_t size = bytes.size() < kUnitBytes ? 0 : read_u32(bytes, 0);
  if (size == 0 || size % kUnitBytes != 0 || size > bytes.size() - kUnitBytes) {
    return invalid_data(
        "The character map of the vocabulary is damaged (tokenizer.ggml.precompiled_charsmap).");
  }
  for (size_t at = kUnitBytes; at < kUnitBytes + size; at += kUnitBytes) {
    out.units_.push_back(read_u32(bytes, at));
  }
  out.replacements_ = bytes.substr(kUnitBytes + size) + '\0';
  return out;
}

CharacterMap::Match CharacterMap::match(std::string_view text) const {
  Match found;
  if (units_.empty()) return found;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<uint8_t>(text[i]);
    node ^= label;
    // A zero byte is no label: its place holds a node's value.
    if (label == 0 || node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & (kValueBit | 0xFF)) != label) break;
    node ^= offset_of(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const uint32_t value = node < units_.size() ? units_[node] & ~kValueBit : kValueBit;
    if (value >= replacements_.size()) break;  // a damaged map
    found = {i + 1, std::string_view(replacements_.data() + value)};
  }
  return found;
}

}  // namespace chimere::text
