// The precompiled character map of a SentencePiece model ("precompiled_charsmap"): which sequences
// of characters are replaced by which before a text is cut into pieces.
#ifndef CHIMERE_TEXT_CHARACTER_MAP_H_
#define CHIMERE_TEXT_CHARACTER_MAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::text {

/// The bytes of a map, all little-endian: the size of a trie in bytes (u32), the trie, and
/// replacements that end with a zero byte. The trie is a double array (Aoe 1989) in the form of the
/// library Darts-clone. A unit of 32 bits has
///   bits 0-7 and 31  the label, a byte; bit 31 is set in the unit of a value instead
///   bit 8            the node has a value
///   bits 10-30       the offset, shifted left by 8 if bit 9 is set
/// The child c of unit u is u ^ offset(u) ^ c; a node's value is its child 0, whose bits 0-30 say
/// where the replacement begins.
class CharacterMap {
 public:
  CharacterMap() = default;
  /// An empty map for no bytes. Errors: kInvalidData.
  static Result<CharacterMap> create(const std::string& bytes);

  struct Match {
    size_t length = 0;             ///< bytes of the text; 0: nothing is replaced
    std::string_view replacement;  ///< of the map
  };
  /// The longest sequence that `text` begins with and that is replaced.
  Match match(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  ///< ends with a zero byte
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_CHARACTER_MAP_H_
