// The layout of a version 2 table file: docs/engram-format.md. Internal to the module.
#ifndef CHIMERE_ENGRAM_TABLE_FORMAT_H_
#define CHIMERE_ENGRAM_TABLE_FORMAT_H_

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "engram/counts.h"
#include "engram/cuckoo_filter.h"

namespace chimere::engram {

static_assert(std::endian::native == std::endian::little, "tables are mapped as they are");

inline constexpr uint32_t kMagic = 0x454E4752;  // "ENGR" as a number
inline constexpr uint32_t kLegacyVersion = 1;
inline constexpr uint32_t kVersion = 2;

struct Header {
  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  uint32_t order = 0;
  uint32_t as_of = 0;
  uint64_t tokenizer = 0;
  uint64_t slots = 0;
  uint64_t nodes = 0;  ///< without the sentinel
  uint64_t successors = 0;
  uint64_t buckets = 0;
  uint64_t gate_values = 0;
  uint64_t source_bytes = 0;
  uint64_t body_checksum = 0;  ///< XXH3 of everything after the header
  std::array<uint32_t, kMaxOrder + 2> levels = {};
  std::array<Discounts, kMaxOrder + 1> discounts = {};
  std::array<uint8_t, 20> reserved = {};  ///< zero
  uint64_t checksum = 0;                  ///< XXH3 of the header up to here
};
static_assert(sizeof(Header) == 256);

/// Hash of a context, identified by its next shorter context and the token before that.
constexpr uint64_t context_hash(uint32_t parent, uint32_t token) {
  return mix(uint64_t{parent} << 32 | token);
}
/// The first slot of a hash; uses other bits than the filter.
constexpr uint64_t slot_of(uint64_t hash, uint64_t slots) { return hash >> 16 & (slots - 1); }

uint64_t checksum_of(std::span<const uint8_t> bytes);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_TABLE_FORMAT_H_
