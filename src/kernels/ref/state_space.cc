#include "kernels/ref/state_space.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/math.h"

namespace chimere::kernels::ref {
namespace {

/// Calls `fold` for each unfolded row of a sequence and `step` for each of its rows, in order, with
/// the part of the state at `offset`.
void walk(const BatchView& batch, int32_t sequence, const RecurrentView& state, int64_t offset,
          int64_t floats, const std::function<void(const float* kept, float* s)>& fold,
          const std::function<void(int32_t row, float* kept, float* s)>& step) {
  const std::span<const int32_t> unfolded = batch.unfolded(sequence);
  const int32_t from = unfolded.empty() ? batch.read_slot[sequence] : batch.fold_from[sequence];
  const float* const before = state.slot(from) + offset;
  std::vector<float> s(before, before + floats);
  for (const int32_t row : unfolded) fold(state.row(row), s.data());
  if (!unfolded.empty()) std::ranges::copy(s, state.slot(batch.read_slot[sequence]) + offset);
  for (int32_t i = batch.sequence_slices[sequence]; i < batch.sequence_slices[sequence + 1]; ++i) {
    const Slice& slice = batch.slices[i];
    for (int32_t r = slice.row_begin; r < slice.row_begin + slice.row_count; ++r) {
      step(r, batch.keep(r) < 0 ? nullptr : state.row(batch.keep(r)), s.data());
      if (batch.write_slot[r] >= 0) {
        std::ranges::copy(s, state.slot(batch.write_slot[r]) + offset);
      }
    }
  }
}

/// Element p of a head of Ops::ssd_scan: S = g S + B u.
void update(float g, const float* b, float u, int state_dim, int stride, float* s) {
  for (int n = 0; n < state_dim; ++n) {
    float& x = s[static_cast<size_t>(n) * stride];
    x = std::fma(b[n], u, g * x);
  }
}

/// C^T S for the same element.
float read(const float* c, int state_dim, int stride, const float* s) {
  float y = 0;
  for (int n = 0; n < state_dim; ++n) y = std::fma(c[n], s[static_cast<size_t>(n) * stride], y);
  return y;
}

}  // namespace

void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
              ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state, MatrixView out) {
  const int dim = shape.head_dim;
  const int64_t head_floats = static_cast<int64_t>(dim) * shape.state_dim;
  for (int32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
    for (int h = 0; h < shape.n_heads; ++h) {
      const int64_t in_head = static_cast<int64_t>(h) * dim;
      const int64_t in_group = static_cast<int64_t>(h / shape.heads_of_group()) * shape.state_dim;
      const auto fold = [&](const float* kept, float* s) {
        const float* const b = kept + shape.inner() + in_group;
        const float g = kept[shape.inner() + shape.bc_dim() + h];
        for (int p = 0; p < dim; ++p) {
          update(g, b, kept[in_head + p], shape.state_dim, dim, s + p);
        }
      };
      const auto step = [&](int32_t r, float* kept, float* s) {
        const float* const x = xbc.row(r) + in_head;
        const float* const b = xbc.row(r) + shape.inner() + in_group;
        const float* const c = b + shape.bc_dim();
        const float d = softplus(dt.row(r)[h] + weights.dt_bias[h]);
        const float g = exp_f32(d * weights.a[h]);
        if (kept != nullptr) {
          for (int p = 0; p < dim; ++p) kept[in_head + p] = d * x[p];
          // Every head of a group stores the same B.
          std::copy_n(b, shape.state_dim, kept + shape.inner() + in_group);
          kept[shape.inner() + shape.bc_dim() + h] = g;
        }
        for (int p = 0; p < dim; ++p) {
          update(g, b, d * x[p], shape.state_dim, dim, s + p);
          out.row(r)[in_head + p] =
              std::fma(weights.d[h], x[p], read(c, shape.state_dim, dim, s + p));
        }
      };
      walk(batch, sequence, state, h * head_floats, head_floats, fold, step);
    }
  }
}

void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                    const SelectiveWeights& weights, const SelectiveInputs& in, RecurrentView state,
                    MatrixView out) {
  const int n_states = shape.state_dim;
  const int channels = shape.channels;
  const auto update_channel = [&](int c, float dt, float u, const float* b, float* s) {
    const int64_t at =
        static_cast<int64_t>(c / kChannelUnit) * n_states * kChannelUnit + c % kChannelUnit;
    for (int n = 0; n < n_states; ++n) {
      const int64_t i = at + static_cast<int64_t>(n) * kChannelUnit;
      s[i] = std::fma(b[n], u, exp_f32(dt * weights.a[i]) * s[i]);
    }
    return s + at;
  };
  const auto fold = [&](const float* kept, float* s) {
    for (int c = 0; c < channels; ++c) {
      update_channel(c, kept[c], kept[channels + c], kept + 2 * channels, s);
    }
  };
  const auto step = [&](int32_t r, float* kept, float* s) {
    if (kept != nullptr) std::copy_n(in.b.row(r), n_states, kept + 2 * channels);
    for (int c = 0; c < channels; ++c) {
      const float x = in.x.row(r)[c];
      const float dt = softplus(in.dt.row(r)[c] + weights.dt_bias[c]);
      const float u = dt * x;
      const float* const column = update_channel(c, dt, u, in.b.row(r), s);
      out.row(r)[c] = std::fma(weights.d[c], x, read(in.c.row(r), n_states, kChannelUnit, column));
      if (kept == nullptr) continue;
      kept[c] = dt;
      kept[channels + c] = u;
    }
  };
  for (int32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
    walk(batch, sequence, state, 0, shape.state_floats(), fold, step);
  }
}

}  // namespace chimere::kernels::ref
