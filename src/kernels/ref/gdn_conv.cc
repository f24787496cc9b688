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

/// Stores in each read slot the convolution's state after the sequence's unfolded rows.
void fold(const BatchView& batch, const GdnShape& shape, const RecurrentView& state) {
  const int64_t channels = shape.conv_dim();
  const auto floats = static_cast<size_t>(shape.conv_state_floats());
  for (int32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
    const std::span<const int32_t> unfolded = batch.unfolded(sequence);
    if (unfolded.empty()) continue;
    const float* from = state.slot(batch.fold_from[sequence]);
    std::vector<float> inputs(from, from + floats);
    for (const int32_t row : unfolded) {
      inputs.insert(inputs.end(), state.row(row), state.row(row) + channels);
    }
    std::copy(inputs.end() - static_cast<std::ptrdiff_t>(floats), inputs.end(),
              state.slot(batch.read_slot[sequence]));
  }
}

}  // namespace

void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
              RecurrentView state, MatrixView qkv) {
  const int64_t channels = shape.conv_dim();
  const int taps = shape.conv_kernel;
  fold(batch, shape, state);
  std::vector<float> window(static_cast<size_t>(taps * channels));  // the last `taps` inputs
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t sequence = batch.row_sequence[r];
    if (r == 0 || batch.row_sequence[r - 1] != sequence) {
      const float* before = state.slot(batch.read_slot[sequence]);
      std::copy_n(before, (taps - 1) * channels, window.begin() + channels);
    }
    std::copy(window.begin() + channels, window.end(), window.begin());
    std::copy_n(qkv.row(r), channels, window.end() - channels);
    if (batch.write_slot[r] >= 0) {
      std::copy(window.begin() + channels, window.end(), state.slot(batch.write_slot[r]));
    }
    float* x = qkv.row(r);
    if (batch.keep(r) >= 0) std::copy_n(x, channels, state.row(batch.keep(r)));
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
