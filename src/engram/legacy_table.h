// Tables of version 1: a single order, keys stored as hashes only, no tokenizer
// (docs/engram-format.md).
#ifndef CHIMERE_ENGRAM_LEGACY_TABLE_H_
#define CHIMERE_ENGRAM_LEGACY_TABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "engram/table.h"

namespace chimere::engram {

/// FNV-1a over the four little-endian bytes of each token.
uint64_t legacy_hash(std::span<const int32_t> tokens);

struct LegacyEntry {
  uint64_t hash = 0;                  ///< of the context
  std::vector<Successor> successors;  ///< token and weight as stored in the file: 1 per occurrence
};

struct LegacyContent {
  uint32_t order = 0;
  uint32_t slots = 0;
  std::vector<LegacyEntry> entries;  ///< in the order of the data section
};

/// Reads a whole version 1 file. Errors: kNotFound, kIo, kInvalidData (damaged), kUnsupported.
Result<LegacyContent> read_legacy(const std::string& path);

/// The bytes of a version 1 file. Entries are inserted into the hash table in the given order, as
/// the original program did, with `slots` slots (0: the original's choice, a power of two of at
/// least max(16, 2 n)). Reproduces the bytes of a file read by read_legacy(). Errors:
/// kInvalidArgument (too few slots, data beyond 32-bit offsets).
Result<std::vector<uint8_t>> legacy_bytes(const LegacyContent& content);

/// Counts the contexts of `order` tokens; entries are in ascending order of their hashes.
LegacyContent legacy_content(std::span<const std::vector<int32_t>> documents, uint32_t order);

/// Opens a file whose magic number and version have been checked.
Result<std::shared_ptr<const Table>> open_legacy(MappedFile file);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_LEGACY_TABLE_H_
