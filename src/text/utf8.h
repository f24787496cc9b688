// UTF-8 decoding and encoding, and the alphabet of byte-level BPE.
#ifndef CHIMERE_TEXT_UTF8_H_
#define CHIMERE_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::text {

/// The character at one position of a byte string.
struct Utf8Char {
  enum class Kind {
    kValid,      ///< one character
    kInvalid,    ///< `length` bytes that no continuation can make valid
    kTruncated,  ///< the string ends inside a so far valid character
  };
  Kind kind = Kind::kInvalid;
  int length = 0;     ///< bytes; for kInvalid the longest well-formed beginning, at least 1
  uint32_t code = 0;  ///< the code point of a kValid character
};

/// Reads the character at `at` (which must be inside `s`), by table 3-7 of the Unicode standard:
/// no overlong forms, no surrogates, nothing above U+10FFFF.
Utf8Char read_utf8(std::string_view s, size_t at);

bool is_valid_utf8(std::string_view s);

/// Appends the UTF-8 form of a code point (at most U+10FFFF).
void append_utf8(std::string& out, uint32_t code);

/// The printable stand-ins for raw bytes that byte-level BPE vocabularies are written in.
/// Bytes that are printable in Latin-1 stand for themselves, the others follow from U+0100 on.
class ByteAlphabet {
 public:
  static const ByteAlphabet& get();
  uint32_t code_of(uint8_t byte) const { return code_[byte]; }
  /// -1: no byte has this stand-in.
  int byte_of(uint32_t code) const { return code < kCodes ? byte_[code] : -1; }
  std::string encode(std::string_view bytes) const;
  /// Characters outside the alphabet stand for their own UTF-8 bytes.
  std::string decode(std::string_view text) const;

 private:
  ByteAlphabet();
  static constexpr uint32_t kCodes = 0x144;
  uint32_t code_[256];
  int16_t byte_[kCodes];
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_UTF8_H_
