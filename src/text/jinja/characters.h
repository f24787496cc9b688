// Strings as Python sees them: sequences of code points.
#ifndef CHIMERE_TEXT_JINJA_CHARACTERS_H_
#define CHIMERE_TEXT_JINJA_CHARACTERS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"

namespace chimere::text::jinja {

/// Byte offsets of the characters and, last, the size. A byte that is not UTF-8 is a character.
std::vector<size_t> character_offsets(std::string_view s);
int64_t count_characters(std::string_view s);

/// str.isspace() of one character.
bool is_space(uint32_t code);
/// Whether repr() shows a character as it is.
bool is_printable(uint32_t code);
/// Whether the character has an upper, lower or title case (str.isupper() and its like go by it).
bool is_cased(uint32_t code);
bool is_upper(uint32_t code);
bool is_lower(uint32_t code);

/// str.strip() and its halves. `chars` empty: white space.
MarkedText strip(const MarkedText& s, std::string_view chars, bool left, bool right);

MarkedText upper(const MarkedText& s);
MarkedText lower(const MarkedText& s);
/// The first letter of each word in upper case, the others in lower case. `words_after_any`: as
/// str.title() finds words (letters after any non-letter), else as Jinja's filter (after spaces,
/// hyphens and opening brackets).
MarkedText title(const MarkedText& s, bool words_after_any);
MarkedText capitalize(const MarkedText& s);
MarkedText swap_case(const MarkedText& s);
/// str.casefold(): what differs in case alone becomes equal.
MarkedText fold_case(const MarkedText& s);

/// str.replace(); count < 0: all.
MarkedText replace(const MarkedText& s, const MarkedText& from, const MarkedText& to,
                   int64_t count);

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_CHARACTERS_H_
