// The bytes of a stored state (docs/state-blob.md): header, component table, pages, slot, checksum.
#ifndef CHIMERE_STATE_BLOB_H_
#define CHIMERE_STATE_BLOB_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "state/spec.h"

namespace chimere::state {

/// What a blob says about itself, before its blocks.
struct BlobHeader {
  uint64_t fingerprint = 0;
  int32_t position = 0;
  uint32_t pages = 0;
  uint32_t slots = 0;    ///< 0: the empty state, or a model without recurrent state
  size_t blocks_at = 0;  ///< offset of the first page
};

uint64_t checksum(std::span<const uint8_t> bytes);
void append_u32(std::vector<uint8_t>& out, uint32_t v);
void append_u64(std::vector<uint8_t>& out, uint64_t v);

/// One 32-byte record per component.
std::vector<uint8_t> component_table(const StateSpec& spec);

/// Header and component table; the blocks and then finish_blob() follow.
std::vector<uint8_t> begin_blob(const StateSpec& spec, const BlobHeader& header);
/// Fills in the size and appends the checksum.
void finish_blob(std::vector<uint8_t>& blob);

/// Checks magic, version, size and checksum, then reads the header.
/// Errors: kInvalidData (no state, cut short or changed), kUnsupported (a newer version).
Result<BlobHeader> read_blob_header(std::span<const uint8_t> blob);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_BLOB_H_
