#include <cmath>

#include "kernels/ref/state_space.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

void l2_normalise(float* x, int n, float eps) {
  const float scale = 1.0F / std::sqrt(dot16(x, x, n) + eps);
  for (int i = 0; i < n; ++i) x[i] *= scale;
}

}  // namespace

void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
              RecurrentView state, MatrixView qkv) {
  causal_conv(batch, {.channels = shape.conv_dim(), .taps = shape.conv_kernel}, weight,
              /*bias=*/nullptr, state, qkv);
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    for (int h = 0; h < 2 * shape.n_k_heads; ++h) {
      l2_normalise(qkv.row(r) + static_cast<int64_t>(h) * shape.head_dim, shape.head_dim, eps);
    }
  }
}

}  // namespace chimere::kernels::ref
