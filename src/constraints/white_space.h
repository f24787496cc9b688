// White space between the parts of a generated text.
#ifndef CHIMERE_CONSTRAINTS_WHITE_SPACE_H_
#define CHIMERE_CONSTRAINTS_WHITE_SPACE_H_

#include <cstdint>

namespace chimere::constraints {

/// JSON's white space (RFC 8259, section 2).
inline bool is_white_space(uint8_t byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_WHITE_SPACE_H_
