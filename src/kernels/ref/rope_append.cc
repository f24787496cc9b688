#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/ref/kv_page.h"
#include "kernels/ref/vector_ops.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {
namespace {

void normalise_and_rotate(float* x, const AttentionShape& shape, const float* weight, float eps,
                          const float* cos_sin) {
  const float mean = dot16(x, x, shape.head_dim) / static_cast<float>(shape.head_dim);
  const float scale = 1.0F / std::sqrt(mean + eps);
  for (int i = 0; i < shape.head_dim; ++i) x[i] = x[i] * scale * weight[i];
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

void store(DType type, const float* x, uint8_t* dst, int n) {
  for (int i = 0; i < n; ++i) {
    if (type == DType::kF16) {
      const uint16_t h = quant::f32_to_f16(x[i]);
      std::memcpy(dst + 2 * i, &h, 2);
    } else {
      std::memcpy(dst + 4 * i, &x[i], 4);
    }
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
  std::vector<float> key(n);
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    for (int h = 0; h < shape.n_heads; ++h) {
      normalise_and_rotate(qg.row(r) + static_cast<int64_t>(h) * 2 * n, shape, q_norm, eps,
                           rope.row(r));
    }
    for (int h = 0; h < shape.n_kv_heads; ++h) {
      std::copy_n(k.row(r) + static_cast<int64_t>(h) * n, n, key.begin());
      normalise_and_rotate(key.data(), shape, k_norm, eps, rope.row(r));
      const KvSlot slot =
          kv_slot(batch, shape, kv, batch.row_sequence[r], batch.row_position[r], h);
      store(kv.k_type, key.data(), slot.k, n);
      store(kv.v_type, v.row(r) + static_cast<int64_t>(h) * n, slot.v, n);
    }
  }
}

}  // namespace chimere::kernels::ref
