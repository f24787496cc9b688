// The serialised form of a stored state (docs/state-blob.md): header, component table, pages, slot,
// unfolded rows, checksum. Written by Checkpoint::write(), read by StateStore::read().
#ifndef CHIMERE_STATE_BLOB_H_
#define CHIMERE_STATE_BLOB_H_

#include <cstdint>
#include <vector>

#include "state/spec.h"

namespace chimere::state {

void append_u64(std::vector<uint8_t>& out, uint64_t v);

/// One 32-byte record per component.
std::vector<uint8_t> component_table(const StateSpec& spec);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_BLOB_H_
