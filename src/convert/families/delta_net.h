// What the families with gated delta nets share: their keys, and the order of value heads.
#ifndef CHIMERE_CONVERT_FAMILIES_DELTA_NET_H_
#define CHIMERE_CONVERT_FAMILIES_DELTA_NET_H_

#include <cstdint>

#include "convert/family.h"

namespace chimere::convert {

/// Sizes of the linear attention layers.
struct DeltaNetSizes {
  int64_t key_heads;
  int64_t value_heads;  ///< a multiple of key_heads
  int64_t key_dim;
  int64_t value_dim;
};
Result<DeltaNetSizes> read_delta_net_sizes(const Config& config);

/// "ssm.": sizes; "full_attention_interval"; "rope.dimension_count"; widths of experts.
Status write_delta_net_keys(const Config& config, KeyWriter& out);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_FAMILIES_DELTA_NET_H_
