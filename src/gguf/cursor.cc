#include "gguf/cursor.h"

namespace chimere::gguf {

std::string in_quotes(std::string_view text) {
  constexpr size_t kMaxQuoted = 96;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kMaxQuoted)) {
    const auto b = static_cast<uint8_t>(c);
    if (b >= 0x20 && b < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[b >> 4];
      out += kHex[b & 15];
    }
  }
  return out + (text.size() > kMaxQuoted ? "...'" : "'");
}

Result<std::string_view> Cursor::read_string(std::string_view what) {
  const uint64_t at = position_;
  CHIMERE_TRY(const uint64_t length, read<uint64_t>(what));
  if (length > remaining()) {
    return invalid_data("byte " + std::to_string(at) + ": " + std::string(what) + " claims " +
                        std::to_string(length) + " bytes, but only " + std::to_string(remaining()) +
                        " are left in the file");
  }
  const std::string_view text(reinterpret_cast<const char*>(data_ + position_), length);
  position_ += length;
  return text;
}

Error Cursor::truncated(std::string_view what) const {
  return invalid_data("the file ends at byte " + std::to_string(size_) + ", within " +
                      std::string(what) + " at byte " + std::to_string(position_) +
                      "; it may be an incomplete download");
}

}  // namespace chimere::gguf
