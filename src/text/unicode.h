// Character properties of the Unicode standard: categories, case, normal forms.
#ifndef CHIMERE_TEXT_UNICODE_H_
#define CHIMERE_TEXT_UNICODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace chimere::text {

/// General categories (UAX #44). Code points without a character are kCn.
enum class Category : uint8_t {
  kCn,
  kCc,
  kCf,
  kCs,
  kCo,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
};

Category category(uint32_t code);
bool is_letter(uint32_t code);       ///< L
bool is_number(uint32_t code);       ///< N
bool is_punctuation(uint32_t code);  ///< P
bool is_other(uint32_t code);        ///< C: controls, formats, private and unassigned code points

/// Full case mappings that do not depend on neighbours (one to three characters), in UTF-8.
std::string lower_case(uint32_t code);
std::string upper_case(uint32_t code);
std::string title_case(uint32_t code);

/// Canonical combining class; 0: begins a combining sequence.
uint8_t combining_class(uint32_t code);

/// Normal forms C and D (UAX #15). Invalid UTF-8 bytes are copied and separate their surroundings.
/// Linear time, except that a run of n combining marks takes O(n log n).
std::string nfc(std::string_view text);
std::string nfd(std::string_view text);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_UNICODE_H_
