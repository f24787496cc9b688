#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/state_space.h"

namespace chimere::kernels::ref {
namespace {

/// Stores in each read slot the convolution's state after the sequence's unfolded rows.
void fold_inputs(const BatchView& batch, const ConvShape& shape, const RecurrentView& state) {
  const auto floats = static_cast<size_t>(shape.state_floats());
  for (int32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
    const std::span<const int32_t> unfolded = batch.unfolded(sequence);
    if (unfolded.empty()) continue;
    const float* from = state.slot(batch.fold_from[sequence]);
    std::vector<float> inputs(from, from + floats);
    for (const int32_t row : unfolded) {
      inputs.insert(inputs.end(), state.row(row), state.row(row) + shape.channels);
    }
    std::copy(inputs.end() - static_cast<std::ptrdiff_t>(floats), inputs.end(),
              state.slot(batch.read_slot[sequence]));
  }
}

}  // namespace

void causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                 const float* bias, RecurrentView state, MatrixView x) {
  const int64_t channels = shape.channels;
  const int taps = shape.taps;
  fold_inputs(batch, shape, state);
  std::vector<float> window(static_cast<size_t>(taps * channels));  // the last `taps` inputs
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t sequence = batch.row_sequence[r];
    if (r == 0 || batch.row_sequence[r - 1] != sequence) {
      const float* before = state.slot(batch.read_slot[sequence]);
      std::copy_n(before, (taps - 1) * channels, window.begin() + channels);
    }
    std::copy(window.begin() + channels, window.end(), window.begin());
    float* const row = x.row(r);
    std::copy_n(row, channels, window.end() - channels);
    if (batch.write_slot[r] >= 0) {
      std::copy(window.begin() + channels, window.end(), state.slot(batch.write_slot[r]));
    }
    if (batch.keep(r) >= 0) std::copy_n(row, channels, state.row(batch.keep(r)));
    for (int64_t c = 0; c < channels; ++c) {
      float sum = bias == nullptr ? 0.0F : bias[c];
      for (int t = 0; t < taps; ++t) {
        sum = std::fma(weight[c * taps + t], window[t * channels + c], sum);
      }
      row[c] = shape.silu ? silu(sum) : sum;
    }
  }
}

}  // namespace chimere::kernels::ref
