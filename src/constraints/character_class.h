// Classes of characters that most languages treat alike.
#ifndef CHIMERE_CONSTRAINTS_CHARACTER_CLASS_H_
#define CHIMERE_CONSTRAINTS_CHARACTER_CLASS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace chimere::constraints {

/// A set of classes: bits.
using CharacterClasses = uint16_t;

/// The printable ASCII characters but " and \, which JSON strings read in their own way.
inline constexpr std::array<std::string_view, 12> kAsciiClasses = {
    "abcdef",     "ghijklmnopqrstuvwxyz",
    "ABCDEF",     "GHIJKLMNOPQRSTUVWXYZ",
    "0123456789", "_",
    "-",          ".",
    " ",          "/",
    ":",          "!#$%&'()*+,;<=>?@[]^`{|}~",
};
/// Characters above ASCII, in well-formed UTF-8.
inline constexpr CharacterClasses kNonAsciiClass = 1 << kAsciiClasses.size();
/// Everything else: control characters, " and \, bytes that are not UTF-8.
inline constexpr CharacterClasses kOtherClass = kNonAsciiClass << 1;

inline constexpr std::array<CharacterClasses, 128> kClassOfAscii = [] {
  std::array<CharacterClasses, 128> table{};
  table.fill(kOtherClass);
  for (size_t i = 0; i < kAsciiClasses.size(); ++i) {
    for (const char c : kAsciiClasses[i]) {
      table[static_cast<uint8_t>(c)] = static_cast<CharacterClasses>(1U << i);
    }
  }
  return table;
}();

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_CHARACTER_CLASS_H_
