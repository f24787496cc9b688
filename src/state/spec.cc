#include "state/spec.h"

#include <bit>
#include <string>

#include "state/checksum.h"

namespace chimere::state {

static_assert(std::endian::native == std::endian::little, "records are stored in host order");

std::vector<uint8_t> component_table(const StateSpec& spec) {
  std::vector<uint8_t> table;
  for (const ComponentSpec& c : spec.components) {
    const ComponentRecord record{.kind = static_cast<uint32_t>(c.kind),
                                 .layer = static_cast<uint32_t>(c.layer),
                                 .k_type = static_cast<uint32_t>(c.k_type),
                                 .v_type = static_cast<uint32_t>(c.v_type),
                                 .layout = c.layout_version,
                                 .window = static_cast<uint32_t>(c.window),
                                 .bytes = static_cast<uint64_t>(c.bytes)};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    table.insert(table.end(), bytes, bytes + sizeof record);
  }
  return table;
}

uint64_t fingerprint(const StateSpec& spec) {
  std::vector<uint8_t> bytes = component_table(spec);
  append_u64(bytes, static_cast<uint64_t>(spec.page_tokens));
  append_u64(bytes, spec.model_key);
  return checksum(bytes);
}

Status validate(const StateSpec& spec) {
  if (spec.page_tokens < 1) return invalid_argument("a KV page must hold at least one position");
  if (spec.max_pages < 0 || spec.max_slots < 0 || spec.max_pending_rows < 0) {
    return invalid_argument(
        "the numbers of KV pages, recurrent states and pending rows must not be negative");
  }
  constexpr int64_t kMaxPiece = int64_t{1} << 40;
  for (const ComponentSpec& c : spec.components) {
    if (c.bytes <= 0 || c.bytes % 64 != 0 || c.bytes > kMaxPiece) {
      return invalid_argument("the state of layer " + std::to_string(c.layer) + " has " +
                              std::to_string(c.bytes) +
                              " bytes a piece; it must be a positive multiple of 64, at most 2^40");
    }
    if (c.pending_bytes < 0 || c.pending_bytes % 64 != 0 || c.pending_bytes > kMaxPiece ||
        (c.paged() && c.pending_bytes != 0)) {
      return invalid_argument("a pending row of layer " + std::to_string(c.layer) + " keeps " +
                              std::to_string(c.pending_bytes) +
                              " bytes; it must be a multiple of 64, at most 2^40, and 0 for KV");
    }
    if (c.window < 0 || (!c.paged() && c.window != 0)) {
      return invalid_argument("layer " + std::to_string(c.layer) + " has a window of " +
                              std::to_string(c.window) +
                              " positions; only KV can have one, and it must be positive");
    }
  }
  return {};
}

}  // namespace chimere::state
