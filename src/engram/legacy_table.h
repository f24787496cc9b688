// Tables of version 1: one order, keys by hash alone, no tokenizer (docs/engram-format.md).
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
  uint64_t hash = 0;             ///< of the context
  std::vector<Successor> nexts;  ///< token and weight, as the file has them: 1 an occurrence
};

struct LegacyContent {
  uint32_t order = 0;
  uint32_t slots = 0;
  std::vector<LegacyEntry> entries;  ///< in the order of the data section
};

/// Everything in a version 1 file. Errors: kNotFound, kIo, kInvalidData (damaged), kUnsupported.
Result<LegacyContent> read_legacy(const std::string& path);

/// The bytes of a version 1 file: entries go into the table in their order, as the original did,
/// with `slots` slots (0: the original's choice, a power of two of at least max(16, 2 n)). What
/// read_legacy() gave becomes the same bytes again. Errors: kInvalidArgument (too few slots, more
/// data than 32-bit offsets reach).
Result<std::vector<uint8_t>> legacy_bytes(const LegacyContent& content);

/// The contexts of order() tokens; entries in ascending order of their hashes.
LegacyContent legacy_content(std::span<const std::vector<int32_t>> documents, uint32_t order);

/// Of a file whose magic number and version were seen already.
Result<std::shared_ptr<const Table>> open_legacy(MappedFile file);

}  // namespace chimere::engram

#endif  // CHIMERE_ENGRAM_LEGACY_TABLE_H_
