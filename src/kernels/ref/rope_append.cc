#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/kv_page.h"
#include "kernels/ref/kv_rounding.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

void normalise_and_rotate(float* x, const AttentionShape& shape, const float* weight, float eps,
                          const float* cos_sin) {
  if (weight != nullptr) {
    const float mean = dot16(x, x, shape.head_dim) / static_cast<float>(shape.head_dim);
    const float scale = 1.0F / std::sqrt(mean + eps);
    for (int i = 0; i < shape.head_dim; ++i) x[i] = x[i] * scale * weight[i];
  }
  const int half = shape.rope_dims / 2;
  for (int i = 0; i < half; ++i) {
    const float c = cos_sin[i];
    const float s = cos_sin[half + i];
    const float low = x[i];
    const float high = x[half + i];
    x[i] = std::fma(low, c, -(high * s));
    x[half + i] = std::fma(high, c, low * s);
  }
}

}  // namespace

int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) {
  const int64_t bytes = static_cast<int64_t>(kKvPageTokens) * shape.n_kv_heads *
                        (row_bytes(k_type, shape.head_dim) + row_bytes(v_type, shape.head_dim));
  return (bytes + 63) / 64 * 64;
}

void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const RopeTable& rope,
                         const float* q_norm, const float* k_norm, float eps, MatrixView qg,
                         ConstMatrixView k, ConstMatrixView v, KvView kv) {
  const int n = shape.head_dim;
  const bool rotate_keys = dtype_info(kv.k_type).quantised;
  std::vector<float> key(n);
  std::vector<float> value(n);
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const float* cos_sin = shape.rope_dims > 0 ? rope.row(r) : nullptr;
    for (int h = 0; h < shape.n_heads; ++h) {
      float* query = qg.row(r) + static_cast<int64_t>(h) * shape.query_stride();
      normalise_and_rotate(query, shape, q_norm, eps, cos_sin);
      if (rotate_keys) rotate_head(query, n);
    }
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      std::copy_n(k.row(r) + static_cast<int64_t>(h) * n, n, key.begin());
      normalise_and_rotate(key.data(), shape, k_norm, eps, cos_sin);
      if (rotate_keys) rotate_head(key.data(), n);
      std::copy_n(v.row(r) + static_cast<int64_t>(h) * n, n, value.begin());
      if (dtype_info(kv.v_type).quantised) rotate_head(value.data(), n);
      const KvSlot slot =
          kv_slot(batch, shape, kv, batch.row_sequence[r], batch.row_position[r], h);
      store_head(kv.k_type, key.data(), n, slot.k);
      store_head(kv.v_type, value.data(), n, slot.v);
    }
  }
}

}  // namespace chimere::kernels::ref
