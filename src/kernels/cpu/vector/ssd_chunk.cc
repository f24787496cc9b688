// A chunk of state-space duality as matrix products (docs/numerics.md, "ssd_scan, a chunk").
#include "kernels/cpu/vector/chain_product.h"
#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

constexpr int kMaxRows = 64;

struct Gates {
  float dt[kMaxRows];
  float total[kMaxRows];   ///< decay from the state before the chunk
  float to_end[kMaxRows];  ///< decay to the chunk's last row
};

/// Fills the gates and m = γ_ij C_i·B_j, [64, 64] with j <= i.
void prepare(const SsdChunk& s, float* m, Gates& g) {
  const int rows = s.n_rows;
  float log_decay[kMaxRows] = {};
  for (int i = 0; i < rows; ++i) g.dt[i] = s.dt[i * s.dt_stride] + s.dt_bias;
  for (int i = rows; i < kMaxRows; ++i) g.dt[i] = 0;
  for (int i = 0; i < rows; i += kLanes) {
    const F32x16 dt = softplus_lanes(F32x16::load(g.dt + i));
    dt.store(g.dt + i);
    (dt * F32x16::set(s.a)).store(log_decay + i);
  }
  float logs[kMaxRows] = {};  // log γ_ij of the current row i; lanes past i are never read
  float log_total = 0;
  for (int i = 0; i < rows; ++i) {
    log_total += log_decay[i];
    g.total[i] = log_total;
    for (int j = 0; j <= i; j += kLanes) {
      (F32x16::load(logs + j) + F32x16::set(log_decay[i])).store(logs + j);
    }
    logs[i] = 0;
    for (int j = 0; j <= i; j += kLanes) {
      const int64_t at = static_cast<int64_t>(i) * kMaxRows + j;
      (exp_lanes(F32x16::load(logs + j)) * F32x16::load(s.cb + at)).store(m + at);
    }
  }
  for (int i = rows; i < kMaxRows; ++i) g.total[i] = 0;
  for (int i = 0; i < rows; i += kLanes) {
    exp_lanes(F32x16::load(g.total + i)).store(g.total + i);
    exp_lanes(F32x16::load(logs + i)).store(g.to_end + i);
  }
}

/// to = from times factor, n elements.
CHIMERE_INLINE void scale(const float* from, float factor, int64_t n, float* to) {
  const F32x16 f = F32x16::set(factor);
  for (int64_t i = 0; i < n; i += kLanes) (f * F32x16::load(from + i)).store(to + i);
}

}  // namespace

void ssd_products(const SsdProducts& p) {
  const int columns = (p.n_rows + kLanes - 1) / kLanes * kLanes;
  for (int j = 0; j < p.n_rows; ++j) {
    const float* const b = p.b + j * p.stride;
    for (int n = 0; n < p.state_dim; ++n) p.bt[static_cast<int64_t>(n) * kMaxRows + j] = b[n];
  }
  for (int n = 0; n < p.state_dim; ++n) {
    for (int j = p.n_rows; j < columns; ++j) p.bt[static_cast<int64_t>(n) * kMaxRows + j] = 0;
  }
  clear(p.cb, static_cast<int64_t>(p.n_rows) * kMaxRows);
  chain_product({p.c, p.stride, p.bt, kMaxRows, p.cb, kMaxRows, p.n_rows, columns, p.state_dim});
}

void ssd_chunk(const SsdChunk& s) {
  const int dim = s.head_dim;
  const int rows = s.n_rows;
  float* const m = s.scratch;
  float* const u = m + kMaxRows * kMaxRows;
  float* const y = u + static_cast<int64_t>(kMaxRows) * dim;
  Gates g;
  prepare(s, m, g);
  for (int j = 0; j < rows; ++j) {
    scale(s.x + j * s.stride, g.dt[j], dim, u + static_cast<int64_t>(j) * dim);
  }

  // The state before the chunk, then the chunk's rows: earlier blocks of kBlock rows by
  // chain_product, then the block itself.
  clear(y, static_cast<int64_t>(rows) * dim);
  chain_product({s.c, s.stride, s.before, dim, y, dim, rows, dim, s.state_dim});
  constexpr int kBlock = 4;
  const F32x16 d = F32x16::set(s.d);
  for (int begin = 0; begin < rows; begin += kBlock) {
    const int count = begin + kBlock < rows ? kBlock : rows - begin;
    float* const of_block = y + static_cast<int64_t>(begin) * dim;
    for (int i = 0; i < count; ++i) {
      float* const row = of_block + static_cast<int64_t>(i) * dim;
      scale(row, g.total[begin + i], dim, row);
    }
    const float* const factors = m + static_cast<int64_t>(begin) * kMaxRows;
    chain_product({factors, kMaxRows, u, dim, of_block, dim, count, dim, begin});
    for (int i = 0; i < count; ++i) {
      const int r = begin + i;
      float* const row = of_block + static_cast<int64_t>(i) * dim;
      add_rows(u, dim, m + static_cast<int64_t>(r) * kMaxRows, begin, r + 1, row);
      const float* const x = s.x + r * s.stride;
      float* const out = s.out + r * s.out_stride;
      for (int c = 0; c < dim; c += kLanes) {
        fma(d, F32x16::load(x + c), F32x16::load(row + c)).store(out + c);
      }
    }
  }

  for (int j = 0; j < rows; ++j) {
    float* const row = u + static_cast<int64_t>(j) * dim;
    scale(row, g.to_end[j], dim, row);
  }
  scale(s.before, g.total[rows - 1], static_cast<int64_t>(s.state_dim) * dim, s.after);
  chain_product({s.bt, kMaxRows, u, dim, s.after, dim, s.state_dim, dim, rows});
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
