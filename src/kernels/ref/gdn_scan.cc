#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/math.h"
#include "kernels/ref/vector_ops.h"

namespace chimere::kernels::ref {
namespace {

using Floats = std::vector<float>;

/// One v head's inputs for one row.
struct HeadRow {
  Floats q;  ///< [head_dim], already scaled by 1 / sqrt(head_dim)
  const float* k;
  const float* v;
  float log_decay;
  float beta;
  float* out;
  float* corrections = nullptr;  ///< [head_dim], kept for folding; nullptr: not kept
};

float chain_dot(const float* a, const float* b, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) s = std::fma(a[i], b[i], s);
  return s;
}

/// Dot product of column j of the state and x.
float column_dot(const Floats& state, int n, int j, const float* x) {
  float s = 0;
  for (int i = 0; i < n; ++i) s = std::fma(x[i], state[static_cast<size_t>(i) * n + j], s);
  return s;
}

void step(const HeadRow& row, int n, Floats& state) {
  const float decay = exp_f32(row.log_decay);
  const float kq = dot16(row.k, row.q.data(), n);
  for (int j = 0; j < n; ++j) {
    const float kept = column_dot(state, n, j, row.k);
    const float read = column_dot(state, n, j, row.q.data());
    const float delta = row.beta * std::fma(-decay, kept, row.v[j]);
    row.out[j] = std::fma(kq, delta, decay * read);
    if (row.corrections != nullptr) row.corrections[j] = delta;
    for (int i = 0; i < n; ++i) {
      float& s = state[static_cast<size_t>(i) * n + j];
      s = std::fma(row.k[i], delta, decay * s);
    }
  }
}

/// The chunked form: with γ_ij the decay from row j to row i and Γ_i the decay from the state
/// before the chunk,
///   u_i = β_i (v_i − Γ_i Sᵀk_i − Σ_{j<i} γ_ij (k_i·k_j) u_j)
///   o_i = Γ_i Sᵀq_i + Σ_{j≤i} γ_ij (q_i·k_j) u_j
///   S'  = Γ_last S + Σ_j γ_last,j k_j ⊗ u_j
void chunk(const std::vector<HeadRow>& rows, int n, Floats& state) {
  const size_t count = rows.size();
  Floats log_decay;  // γ_ij of the current row i, as logarithms, j <= i
  float log_total = 0;
  std::vector<Floats> u(count, Floats(n));
  for (size_t i = 0; i < count; ++i) {
    const HeadRow& row = rows[i];
    for (float& d : log_decay) d += row.log_decay;
    log_decay.push_back(0);
    log_total += row.log_decay;
    const float total = exp_f32(log_total);
    Floats kk;
    Floats qk;
    for (size_t j = 0; j <= i; ++j) {
      const float decay = exp_f32(log_decay[j]);
      kk.push_back(decay * chain_dot(row.k, rows[j].k, n));
      qk.push_back(decay * chain_dot(row.q.data(), rows[j].k, n));
    }
    for (int c = 0; c < n; ++c) {
      float x = std::fma(-total, column_dot(state, n, c, row.k), row.v[c]);
      for (size_t j = 0; j < i; ++j) x = std::fma(-kk[j], u[j][c], x);
      u[i][c] = row.beta * x;
      float o = total * column_dot(state, n, c, row.q.data());
      for (size_t j = 0; j <= i; ++j) o = std::fma(qk[j], u[j][c], o);
      row.out[c] = o;
    }
  }
  const float total = exp_f32(log_total);
  for (int d = 0; d < n; ++d) {
    for (int c = 0; c < n; ++c) {
      float& s = state[static_cast<size_t>(d) * n + c];
      s *= total;
      for (size_t j = 0; j < count; ++j) {
        s = std::fma(exp_f32(log_decay[j]) * rows[j].k[d], u[j][c], s);
      }
    }
  }
}

/// A row that a sequence has kept, for one v head.
struct KeptRow {
  const float* k;
  const float* corrections;
  float decay;
};

void fold(const KeptRow& row, int n, Floats& state) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float& s = state[static_cast<size_t>(i) * n + j];
      s = std::fma(row.k[i], row.corrections[j], row.decay * s);
    }
  }
}

}  // namespace

void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
              ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
              RecurrentView state, MatrixView out) {
  const int n = shape.head_dim;
  const int64_t head_floats = static_cast<int64_t>(n) * n;
  const float q_scale = 1.0F / std::sqrt(static_cast<float>(n));
  for (int h = 0; h < shape.n_v_heads; ++h) {
    const int kh =
        shape.tiled_heads ? h % shape.n_k_heads : h / (shape.n_v_heads / shape.n_k_heads);
    auto head_row = [&](int64_t r) {
      const float* q = qkv.row(r) + static_cast<int64_t>(kh) * n;
      HeadRow row;
      for (int i = 0; i < n; ++i) row.q.push_back(q[i] * q_scale);
      row.k = q + shape.key_dim();
      row.v = qkv.row(r) + 2 * shape.key_dim() + static_cast<int64_t>(h) * n;
      row.log_decay = a[h] * softplus(alpha.row(r)[h] + dt_bias[h]);
      row.beta = sigmoid(beta.row(r)[h]);
      row.out = out.row(r) + static_cast<int64_t>(h) * n;
      if (batch.keep(r) >= 0) {
        // Every v head of a k head stores the same k.
        float* kept = state.row(batch.keep(r));
        std::copy_n(row.k, n, kept + static_cast<int64_t>(kh) * n);
        kept += shape.key_dim();
        row.corrections = kept + static_cast<int64_t>(h) * n;
        kept[shape.value_dim() + h] = exp_f32(row.log_decay);
      }
      return row;
    };
    for (int32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
      const std::span<const int32_t> unfolded = batch.unfolded(sequence);
      const int32_t from = unfolded.empty() ? batch.read_slot[sequence] : batch.fold_from[sequence];
      const float* before = state.slot(from) + h * head_floats;
      Floats s(before, before + head_floats);
      for (const int32_t row : unfolded) {
        const float* kept = state.row(row);
        const float* corrections = kept + shape.key_dim();
        fold({kept + static_cast<int64_t>(kh) * n, corrections + static_cast<int64_t>(h) * n,
              corrections[shape.value_dim() + h]},
             n, s);
      }
      if (!unfolded.empty()) {
        std::ranges::copy(s, state.slot(batch.read_slot[sequence]) + h * head_floats);
      }
      auto write = [&](int64_t r) {
        if (batch.write_slot[r] < 0) return;
        std::ranges::copy(s, state.slot(batch.write_slot[r]) + h * head_floats);
      };
      for (int32_t i = batch.sequence_slices[sequence]; i < batch.sequence_slices[sequence + 1];
           ++i) {
        const Slice& slice = batch.slices[i];
        const int32_t end = slice.row_begin + slice.row_count;
        if (slice.row_class == RowClass::kPrefill) {
          std::vector<HeadRow> rows;
          for (int32_t r = slice.row_begin; r < end; ++r) rows.push_back(head_row(r));
          chunk(rows, n, s);
          write(end - 1);
        } else {
          for (int32_t r = slice.row_begin; r < end; ++r) {
            step(head_row(r), n, s);
            write(r);
          }
        }
      }
    }
  }
}

}  // namespace chimere::kernels::ref
