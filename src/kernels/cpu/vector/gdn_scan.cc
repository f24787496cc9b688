#include "kernels/cpu/vector/chain_product.h"
#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

constexpr int kMaxRows = 64;
constexpr int kMaxHeadDim = 256;

float log_decay(const ScanUnit& u, int64_t r) {
  return u.a * softplus(u.alpha[r * u.alpha_stride] + u.dt_bias);
}

void scale_query(const float* q, int n, float* scaled) {
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(n));
  for (int i = 0; i < n; i += kLanes) {
    (F32x16::load(q + i) * F32x16::set(scale)).store(scaled + i);
  }
}

struct DecodeRow {
  const float* q;
  float kq;
  float decay;
  float beta;
};

/// kTiles * 16 columns of the state. The first pass runs two chains per 16 columns (kᵀS and qᵀS)
/// over its rows; the second updates the state while it is still in cache.
template <int kTiles>
void step_columns(const ScanUnit& u, const DecodeRow& row, int column) {
  const int64_t n = u.head_dim;
  F32x16 kept[kTiles];
  F32x16 read[kTiles];
  for (int t = 0; t < kTiles; ++t) kept[t] = read[t] = F32x16::set(0);
  const float* before = u.before + column;
  for (int64_t i = 0; i < n; ++i) {
    const F32x16 k = F32x16::set(u.k[i]);
    const F32x16 q = F32x16::set(row.q[i]);
    for (int t = 0; t < kTiles; ++t) {
      const F32x16 s = F32x16::load(before + i * n + t * kLanes);
      kept[t] = fma(k, s, kept[t]);
      read[t] = fma(q, s, read[t]);
    }
  }
  const F32x16 decay = F32x16::set(row.decay);
  F32x16 delta[kTiles];
  for (int t = 0; t < kTiles; ++t) {
    const int c = column + t * kLanes;
    const F32x16 error = fma(F32x16::set(-row.decay), kept[t], F32x16::load(u.v + c));
    delta[t] = F32x16::set(row.beta) * error;
    fma(F32x16::set(row.kq), delta[t], decay * read[t]).store(u.out + c);
    if (u.kept_corrections != nullptr) delta[t].store(u.kept_corrections + c);
  }
  float* after = u.after + column;
  for (int64_t i = 0; i < n; ++i) {
    const F32x16 k = F32x16::set(u.k[i]);
    for (int t = 0; t < kTiles; ++t) {
      const F32x16 s = F32x16::load(before + i * n + t * kLanes);
      fma(k, delta[t], decay * s).store(after + i * n + t * kLanes);
    }
  }
}

/// Rows that are folded in one pass over the state.
constexpr int kFoldRows = 4;

/// In the order of addresses, as memory is read fastest.
template <int kRows>
void fold_rows(const ScanFold& u) {
  const int64_t n = u.head_dim;
  int64_t at[kRows];
  F32x16 decay[kRows];
  for (int r = 0; r < kRows; ++r) {
    at[r] = u.row_blocks[r] * u.row_stride;
    decay[r] = F32x16::set(u.decay[at[r]]);
  }
  for (int64_t i = 0; i < n; ++i) {
    F32x16 k[kRows];
    for (int r = 0; r < kRows; ++r) k[r] = F32x16::set(u.k[at[r] + i]);
    for (int64_t c = 0; c < n; c += kLanes) {
      F32x16 s = F32x16::load(u.before + i * n + c);
      for (int r = 0; r < kRows; ++r) {
        s = fma(k[r], F32x16::load(u.corrections + at[r] + c), decay[r] * s);
      }
      s.store(u.after + i * n + c);
    }
  }
}

/// The working matrices of a chunk; 64 is the row stride of those that are indexed by two rows.
struct ChunkScratch {
  float* q;   ///< [64][n] scaled
  float* kt;  ///< [n][64] keys, transposed; finally times the decay to the chunk's end
  float* u;   ///< [64][n]
  float* kk;  ///< [64][64] −γ_ij k_i·k_j
  float* qk;  ///< [64][64] γ_ij q_i·k_j
};

struct ChunkGates {
  float total[kMaxRows];  ///< decay from the state before the chunk
  float beta[kMaxRows];
  float to_end[kMaxRows];  ///< decay to the chunk's last row
};

/// Fills the scratch's q, kt, kk, qk and the gates.
void prepare_chunk(const ScanUnit& u, const ChunkScratch& m, ChunkGates& g) {
  const int64_t n = u.head_dim;
  const int rows = u.n_rows;
  const int columns = (rows + kLanes - 1) / kLanes * kLanes;
  for (int i = 0; i < rows; ++i) {
    scale_query(u.q + i * u.qkv_stride, u.head_dim, m.q + i * n);
    const float* k = u.k + i * u.qkv_stride;
    for (int64_t d = 0; d < n; ++d) m.kt[d * kMaxRows + i] = k[d];
  }
  for (int64_t d = 0; d < n; ++d) {
    for (int i = rows; i < columns; ++i) m.kt[d * kMaxRows + i] = 0;
  }
  clear(m.kk, static_cast<int64_t>(rows) * kMaxRows);
  clear(m.qk, static_cast<int64_t>(rows) * kMaxRows);
  // Of the rows from the diagonal on.
  for (int j = 0; j < columns; j += kChainColumns) {
    const int width = columns - j < kChainColumns ? columns - j : kChainColumns;
    const int64_t at = static_cast<int64_t>(j) * kMaxRows + j;
    chain_product({u.k + j * u.qkv_stride, u.qkv_stride, m.kt + j, kMaxRows, m.kk + at, kMaxRows,
                   rows - j, width, u.head_dim});
    chain_product(
        {m.q + j * n, n, m.kt + j, kMaxRows, m.qk + at, kMaxRows, rows - j, width, u.head_dim});
  }

  float logs[kMaxRows] = {};  // log γ_ij of the current row i; lanes past i are never read
  float log_total = 0;
  for (int i = 0; i < rows; ++i) {
    const float log_row = log_decay(u, i);
    log_total += log_row;
    g.total[i] = exp_f32(log_total);
    g.beta[i] = sigmoid(u.beta[i * u.beta_stride]);
    for (int j = 0; j <= i; j += kLanes) {
      (F32x16::load(logs + j) + F32x16::set(log_row)).store(logs + j);
    }
    logs[i] = 0;
    for (int j = 0; j <= i; j += kLanes) {
      const F32x16 decay = exp_lanes(F32x16::load(logs + j));
      float* kk = m.kk + static_cast<int64_t>(i) * kMaxRows + j;
      float* qk = m.qk + static_cast<int64_t>(i) * kMaxRows + j;
      (F32x16::set(-0.0F) - decay * F32x16::load(kk)).store(kk);
      (decay * F32x16::load(qk)).store(qk);
    }
  }
  for (int j = 0; j < rows; j += kLanes) exp_lanes(F32x16::load(logs + j)).store(g.to_end + j);
}

}  // namespace

void scan_step(const ScanUnit& u) {
  float q[kMaxHeadDim];
  scale_query(u.q, u.head_dim, q);
  const DecodeRow row = {q, dot16(u.k, q, u.head_dim), exp_f32(log_decay(u, 0)),
                         sigmoid(u.beta[0])};
  if (u.kept_decay != nullptr) *u.kept_decay = row.decay;
  constexpr int kTiles = F32x16::kRegisters >= 32 ? 4 : F32x16::kRegisters >= 8 ? 2 : 1;
  int c = 0;
  for (; c + kTiles * kLanes <= u.head_dim; c += kTiles * kLanes) step_columns<kTiles>(u, row, c);
  for (; c < u.head_dim; c += kLanes) step_columns<1>(u, row, c);
}

void fold_scan(const ScanFold& u) {
  ScanFold pass = u;
  for (int64_t done = 0; done < u.n_rows; done += kFoldRows) {
    const int64_t left = u.n_rows - done;
    pass.row_blocks = u.row_blocks + done;
    switch (left) {
      case 1:
        fold_rows<1>(pass);
        break;
      case 2:
        fold_rows<2>(pass);
        break;
      case 3:
        fold_rows<3>(pass);
        break;
      default:
        fold_rows<kFoldRows>(pass);
        break;
    }
    pass.before = u.after;
  }
}

void scan_chunk(const ScanUnit& u) {
  const int n = u.head_dim;
  const int rows = u.n_rows;
  const int64_t matrix = static_cast<int64_t>(kMaxRows) * n;
  const ChunkScratch m = {u.scratch, u.scratch + matrix, u.scratch + 2 * matrix,
                          u.scratch + 3 * matrix, u.scratch + 3 * matrix + kMaxRows * kMaxRows};
  ChunkGates g;
  prepare_chunk(u, m, g);

  // The contribution of the state before the chunk: v − Γ Sᵀk in u, Γ Sᵀq in out.
  clear(m.u, static_cast<int64_t>(rows) * n);
  chain_product({u.k, u.qkv_stride, u.before, n, m.u, n, rows, n, n});
  for (int i = 0; i < rows; ++i) clear(u.out + i * u.out_stride, n);
  chain_product({m.q, n, u.before, n, u.out, u.out_stride, rows, n, n});
  for (int i = 0; i < rows; ++i) {
    const F32x16 total = F32x16::set(g.total[i]);
    for (int c = 0; c < n; c += kLanes) {
      float* x = m.u + static_cast<int64_t>(i) * n + c;
      fma(F32x16::set(-g.total[i]), F32x16::load(x), F32x16::load(u.v + i * u.qkv_stride + c))
          .store(x);
      float* o = u.out + i * u.out_stride + c;
      (total * F32x16::load(o)).store(o);
    }
  }

  // Forward substitution, kBlock rows at a time: earlier blocks by chain_product, then the block
  // itself.
  constexpr int kBlock = 4;
  for (int begin = 0; begin < rows; begin += kBlock) {
    const int count = begin + kBlock < rows ? kBlock : rows - begin;
    const float* kk = m.kk + static_cast<int64_t>(begin) * kMaxRows;
    const float* qk = m.qk + static_cast<int64_t>(begin) * kMaxRows;
    float* block = m.u + static_cast<int64_t>(begin) * n;
    float* out = u.out + begin * u.out_stride;
    chain_product({kk, kMaxRows, m.u, n, block, n, count, n, begin});
    chain_product({qk, kMaxRows, m.u, n, out, u.out_stride, count, n, begin});
    for (int i = 0; i < count; ++i) {
      float* x = block + static_cast<int64_t>(i) * n;
      add_rows(m.u, n, kk + static_cast<int64_t>(i) * kMaxRows, begin, begin + i, x);
      for (int c = 0; c < n; c += kLanes) {
        (F32x16::set(g.beta[begin + i]) * F32x16::load(x + c)).store(x + c);
      }
      add_rows(m.u, n, qk + static_cast<int64_t>(i) * kMaxRows, begin, begin + i + 1,
               out + i * u.out_stride);
    }
  }

  for (int d = 0; d < n; ++d) {
    float* k = m.kt + static_cast<int64_t>(d) * kMaxRows;
    for (int j = 0; j < rows; j += kLanes) {
      (F32x16::load(g.to_end + j) * F32x16::load(k + j)).store(k + j);
    }
  }
  const F32x16 total = F32x16::set(g.total[rows - 1]);
  for (int64_t i = 0; i < static_cast<int64_t>(n) * n; i += kLanes) {
    (total * F32x16::load(u.before + i)).store(u.after + i);
  }
  chain_product({m.kt, kMaxRows, m.u, n, u.after, n, n, n, rows});
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
