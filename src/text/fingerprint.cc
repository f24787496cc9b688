#include "text/fingerprint.h"

#include <string>

namespace chimere::text {

uint64_t fingerprint(const Tokenizer& tokenizer) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  const auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3ULL; };
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    const std::string bytes = tokenizer.token_bytes(id, true);
    for (int shift = 0; shift < 32; shift += 8)
      add(static_cast<uint8_t>(bytes.size() >> shift & 0xff));
    for (const char c : bytes) add(static_cast<uint8_t>(c));
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace chimere::text
