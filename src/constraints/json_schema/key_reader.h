// Reading one of a sorted list of property names.
#ifndef CHIMERE_CONSTRAINTS_JSON_SCHEMA_KEY_READER_H_
#define CHIMERE_CONSTRAINTS_JSON_SCHEMA_KEY_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "constraints/json_schema/values.h"
#include "constraints/machine.h"

namespace chimere::constraints::json_schema {

/// A position between the quotes of a key: the names [first, end) of the list agree with what was
/// read, which is `depth` bytes of them and then a part of an escape sequence.
struct KeyPosition {
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t depth = 0;
  std::string escape;  ///< "\u00" and so on; high surrogates with their second half
  bool operator==(const KeyPosition&) const = default;
};

struct KeyPositionHash {
  uint64_t operator()(const KeyPosition& position) const;
};

/// The position after a byte other than the closing quote; nullopt: no name continues so.
/// `names` is ordered by text, without duplicates. `canonical`: characters are escaped only where
/// JSON requires it, in their shortest form.
std::optional<KeyPosition> advance_key(const Values& values, const std::vector<Symbol>& names,
                                       const KeyPosition& position, uint8_t byte, bool canonical);

/// The name that ends at the position; kNone: none.
Symbol key_at(const Values& values, const std::vector<Symbol>& names, const KeyPosition& position);

/// A superset of the bytes that may follow.
ByteSet key_bytes(const Values& values, const std::vector<Symbol>& names,
                  const KeyPosition& position);

}  // namespace chimere::constraints::json_schema

#endif  // CHIMERE_CONSTRAINTS_JSON_SCHEMA_KEY_READER_H_
