#include "kernels/ref/state_space.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/math.h"

namespace chimere::kernels::ref {
namespace {

/// Calls `fold` for each unfolded row of a sequence, `chunk` for each of its chunks and `step` for
/// each of its decode rows, in order, with the part of the state at `offset`. Without `chunk`, a
/// chunk's rows are steps.
void walk(const BatchView& batch, int32_t sequence, const RecurrentView& state, int64_t offset,
          int64_t floats, const std::function<void(const float* kept, float* s)>& fold,
          const std::function<void(int32_t row, float* kept, float* s)>& step,
          const std::function<void(int32_t row, int32_t count, float* s)>& chunk = nullptr) {
  const std::span<const int32_t> unfolded = batch.unfolded(sequence);
  const int32_t from = unfolded.empty() ? batch.read_slot[sequence] : batch.fold_from[sequence];
  const float* const before = state.slot(from) + offset;
  std::vector<float> s(before, before + floats);
  for (const int32_t row : unfolded) fold(state.row(row), s.data());
  if (!unfolded.empty()) std::ranges::copy(s, state.slot(batch.read_slot[sequence]) + offset);
  for (int32_t i = batch.sequence_slices[sequence]; i < batch.sequence_slices[sequence + 1]; ++i) {
    const Slice& slice = batch.slices[i];
    const int32_t end = slice.row_begin + slice.row_count;
    const auto write = [&](int32_t r) {
      if (batch.write_slot[r] < 0) return;
      std::ranges::copy(s, state.slot(batch.write_slot[r]) + offset);
    };
    if (slice.row_class == RowClass::kPrefill && chunk != nullptr) {
      chunk(slice.row_begin, slice.row_count, s.data());
      write(end - 1);
      continue;
    }
    for (int32_t r = slice.row_begin; r < end; ++r) {
      step(r, batch.keep(r) < 0 ? nullptr : state.row(batch.keep(r)), s.data());
      write(r);
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

/// One head's inputs and output for one row.
struct SsdRow {
  const float* x;  ///< [head_dim]
  const float* b;  ///< [state_dim]
  const float* c;
  float dt;
  float log_decay;
  float* out;  ///< [head_dim]
};

/// A chunk of one head as matrix products: with γ_ij the decay from row j to row i, Γ_i the decay
/// from the state before the chunk and u_i = dt_i x_i,
///   y_i = Γ_i Sᵀ C_i + Σ_{j≤i} γ_ij (C_i·B_j) u_j
///   S'  = Γ_last S + Σ_j B_j ⊗ (γ_last,j u_j)
void chunk_of_head(const std::vector<SsdRow>& rows, float d, int state_dim, int dim, float* s) {
  std::vector<float> log_decay;  // γ_ij of the current row i, as logarithms, j <= i
  float log_total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SsdRow& row = rows[i];
    for (float& l : log_decay) l += row.log_decay;
    log_decay.push_back(0);
    log_total += row.log_decay;
    const float total = exp_f32(log_total);
    std::vector<float> factors;
    for (size_t j = 0; j <= i; ++j) {
      factors.push_back(exp_f32(log_decay[j]) * read(row.c, state_dim, 1, rows[j].b));
    }
    for (int p = 0; p < dim; ++p) {
      float y = total * read(row.c, state_dim, dim, s + p);
      for (size_t j = 0; j <= i; ++j) y = std::fma(factors[j], rows[j].dt * rows[j].x[p], y);
      row.out[p] = std::fma(d, row.x[p], y);
    }
  }
  const float total = exp_f32(log_total);
  for (int n = 0; n < state_dim; ++n) {
    for (int p = 0; p < dim; ++p) {
      float& x = s[static_cast<size_t>(n) * dim + p];
      x *= total;
      for (size_t j = 0; j < rows.size(); ++j) {
        const float u = exp_f32(log_decay[j]) * (rows[j].dt * rows[j].x[p]);
        x = std::fma(rows[j].b[n], u, x);
      }
    }
  }
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
      const auto chunk = [&](int32_t first, int32_t count, float* s) {
        std::vector<SsdRow> rows;
        for (int32_t r = first; r < first + count; ++r) {
          SsdRow row;
          row.x = xbc.row(r) + in_head;
          row.b = xbc.row(r) + shape.inner() + in_group;
          row.c = row.b + shape.bc_dim();
          row.dt = softplus(dt.row(r)[h] + weights.dt_bias[h]);
          row.log_decay = row.dt * weights.a[h];
          row.out = out.row(r) + in_head;
          rows.push_back(row);
        }
        chunk_of_head(rows, weights.d[h], shape.state_dim, dim, s);
      };
      walk(batch, sequence, state, h * head_floats, head_floats, fold, step, chunk);
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
