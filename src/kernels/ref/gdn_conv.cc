#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math.h"
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
  const int64_t channels = shape.conv_dim();
  const int taps = shape.conv_kernel;
  std::vector<float> window(static_cast<size_t>(taps * channels));  // the last `taps` inputs
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t sequence = batch.row_sequence[r];
    if (r == 0 || batch.row_sequence[r - 1] != sequence) {
      const float* before = state.base + batch.read_slot[sequence] * state.slot_stride;
      std::copy_n(before, (taps - 1) * channels, window.begin() + channels);
    }
    std::copy(window.begin() + channels, window.end(), window.begin());
    std::copy_n(qkv.row(r), channels, window.end() - channels);
    if (batch.write_slot[r] >= 0) {
      std::copy(window.begin() + channels, window.end(),
                state.base + batch.write_slot[r] * state.slot_stride);
    }
    float* x = qkv.row(r);
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int t = 0; t < taps; ++t) {
        sum = std::fma(weight[c * taps + t], window[t * channels + c], sum);
      }
      x[c] = silu(sum);
    }
    for (int h = 0; h < 2 * shape.n_k_heads; ++h) {
      l2_normalise(x + static_cast<int64_t>(h) * shape.head_dim, shape.head_dim, eps);
    }
  }
}

}  // namespace chimere::kernels::ref
