// The oracle's KV page: keys [position][kv head][head_dim], then values in the same order.
#ifndef CHIMERE_KERNELS_REF_KV_PAGE_H_
#define CHIMERE_KERNELS_REF_KV_PAGE_H_

#include <cstdint>

#include "kernels/api.h"

namespace chimere::kernels::ref {

/// Ops::kv_layout() of the oracle.
inline constexpr uint32_t kKvLayout = 1;

/// Address of one head's key and value at one position.
struct KvSlot {
  uint8_t* k;
  uint8_t* v;
};

inline KvSlot kv_slot(const BatchView& batch, const AttentionShape& shape, const KvView& kv,
                      int32_t sequence, int64_t position, int kv_head) {
  const int64_t k_bytes = row_bytes(kv.k_type, shape.head_dim);
  const int64_t v_bytes = row_bytes(kv.v_type, shape.head_dim);
  const int64_t page =
      batch.page_table[batch.pages_of(sequence, kv.group) + position / kKvPageTokens];
  const int64_t slot = position % kKvPageTokens * shape.n_kv_heads + kv_head;
  uint8_t* base = kv.base + page * kv.page_bytes;
  return {base + slot * k_bytes,
          base + static_cast<int64_t>(kKvPageTokens) * shape.n_kv_heads * k_bytes + slot * v_bytes};
}

}  // namespace chimere::kernels::ref

#endif  // CHIMERE_KERNELS_REF_KV_PAGE_H_
