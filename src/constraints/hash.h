// Hashes of small values, for tables and keys inside one process.
#ifndef CHIMERE_CONSTRAINTS_HASH_H_
#define CHIMERE_CONSTRAINTS_HASH_H_

#include <cstdint>
#include <string_view>

namespace chimere::constraints {

/// Mixes all bits (the finaliser of SplitMix64).
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

inline uint64_t combine(uint64_t seed, uint64_t value) { return mix(seed ^ mix(value)); }

inline uint64_t hash_text(uint64_t seed, std::string_view text) {
  for (const char c : text) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return combine(seed, text.size());
}

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_HASH_H_
