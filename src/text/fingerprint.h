// Identifies vocabularies, because token ids are only valid with their own one.
#ifndef CHIMERE_TEXT_FINGERPRINT_H_
#define CHIMERE_TEXT_FINGERPRINT_H_

#include <cstdint>

#include "text/tokenizer.h"

namespace chimere::text {

/// A hash (FNV-1a, 64 bits) of the bytes of every token in the order of ids, each after its length
/// as four little-endian bytes. Never 0. Not collision-resistant against an attacker.
uint64_t fingerprint(const Tokenizer& tokenizer);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_FINGERPRINT_H_
