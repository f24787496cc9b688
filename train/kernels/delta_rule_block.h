// The gated delta rule of one head of one sequence, forward and backward, chunk by chunk.
//
// With G the running sum of g inside a chunk, E = exp(G), r_ij = exp(G_i - G_j) and S the state
// before it, the UT transform of Yang et al. (arXiv:2412.06464) gives
//   A = strictly lower of beta_i r_ij (K K^T)_ij      T = (I + A)^-1
//   X = beta (V - E (K S))                            N = T X, the values that are written
//   O = E (Q S) + P N, P = lower of r_ij (Q K^T)_ij   S' = E_last S + (K exp(G_last - G))^T N
#ifndef CHIMERE_TRAIN_KERNELS_DELTA_RULE_BLOCK_H_
#define CHIMERE_TRAIN_KERNELS_DELTA_RULE_BLOCK_H_

#include "kernels/tile.h"

namespace chimere::train {

/// Shapes and memory of a call. Heads have 64 dimensions. mixed: [B, T, (2 n_k + n_v) * 64], the
/// queries, keys and values of a token; value head h reads key head h mod n_k. g (log decay),
/// beta: [B, T, n_v] f32. out: [B, T, n_v * 64]. states: [B, n_v, chunks, 64, 64] f32, the state
/// before each chunk.
struct DeltaRule {
  int64_t n_batch, n_time, n_k, n_v;
  const Storage* mixed;
  const float *g, *beta;
  Storage* out;
  float* states;
  // Backward only. Queries' and keys' gradients are given per value head.
  const Storage* d_out;      ///< as out
  Storage *d_q, *d_k, *d_v;  ///< [B, T, n_v, 64]
  float *d_g, *d_beta;       ///< as g
};
CHIMERE_BLOCK int64_t n_chunks(const DeltaRule& c) { return (c.n_time + kTile - 1) / kTile; }

constexpr int kForwardTiles = 6, kBackwardTiles = 13, kVectors = 12;
constexpr int kVectorFloats = kVectors * kTile;

/// The work of a block: head `head` (batch * n_v + value head).
struct DeltaHead {
  const DeltaRule& c;
  int64_t batch, value_head;

  CHIMERE_BLOCK DeltaHead(const DeltaRule& call, int64_t head)
      : c(call), batch(head / call.n_v), value_head(head % call.n_v) {}

  /// Loads a [64, 64] part of a [B, T, width] array, zero beyond the end.
  CHIMERE_BLOCK void load(float* tile, const Storage* from, int64_t width, int64_t column,
                          int64_t chunk) const {
    const int64_t first = chunk * kTile, left = c.n_time - first;
    const Storage* base = from + (batch * c.n_time + first) * width + column;
    for_tile(tile, [=](float& x, int i, int j) {
      x = i < left ? static_cast<float>(base[i * width + j]) : 0.0F;
    });
  }
  CHIMERE_BLOCK void store(Storage* to, const float* tile, int64_t chunk) const {
    const int64_t first = chunk * kTile, left = c.n_time - first, width = c.n_v * kTile;
    Storage* base = to + (batch * c.n_time + first) * width + value_head * kTile;
    for_each(kTile * kTile, [=](int n) {
      if (n / kTile < left) {
        base[n / kTile * width + n % kTile] =
            static_cast<Storage>(tile[n / kTile * kStride + n % kTile]);
      }
    });
  }
  CHIMERE_BLOCK int64_t mixed_width() const { return (2 * c.n_k + c.n_v) * kTile; }
  CHIMERE_BLOCK void load_q(float* tile, int64_t chunk) const {
    load(tile, c.mixed, mixed_width(), value_head % c.n_k * kTile, chunk);
  }
  CHIMERE_BLOCK void load_k(float* tile, int64_t chunk) const {
    load(tile, c.mixed, mixed_width(), (c.n_k + value_head % c.n_k) * kTile, chunk);
  }
  CHIMERE_BLOCK const Storage* value_row(int64_t chunk) const {
    return c.mixed + (batch * c.n_time + chunk * kTile) * mixed_width() +
           (2 * c.n_k + value_head) * kTile;
  }
  CHIMERE_BLOCK float* state(int64_t chunk) const {
    return c.states + ((batch * c.n_v + value_head) * n_chunks(c) + chunk) * kTile * kTile;
  }
  /// G, beta and exp(G) of a chunk; past the end g and beta are zero, so that the state stays.
  CHIMERE_BLOCK void load_gates(float* sum, float* beta, float* grown, float* scratch,
                                int64_t chunk) const {
    const int64_t first = chunk * kTile, left = c.n_time - first;
    const int64_t base = (batch * c.n_time + first) * c.n_v + value_head, step = c.n_v;
    const float *g = c.g + base, *b = c.beta + base;
    for_each(kTile, [=](int i) {
      scratch[i] = i < left ? g[i * step] : 0.0F;
      beta[i] = i < left ? b[i * step] : 0.0F;
    });
    for_each(kTile, [=](int i) {
      float total = 0;
      for (int j = 0; j <= i; ++j) total += scratch[j];
      sum[i] = total;
      grown[i] = expf(total);
    });
  }
};

/// X into `x` (which holds K S), from the chunk's values.
CHIMERE_BLOCK void new_values(const DeltaHead& head, float* x, const float* beta,
                              const float* grown, int64_t chunk) {
  const Storage* v = head.value_row(chunk);
  const int64_t width = head.mixed_width(), left = head.c.n_time - chunk * kTile;
  for_tile(x, [=](float& value, int i, int j) {
    value = i < left ? beta[i] * (static_cast<float>(v[i * width + j]) - grown[i] * value) : 0.0F;
  });
}

CHIMERE_BLOCK void delta_rule_forward(const DeltaRule& call, int64_t index, float* memory) {
  const DeltaHead head(call, index);
  float *k = memory, *s = k + kTileFloats, *a = s + kTileFloats, *t = a + kTileFloats,
        *x = t + kTileFloats, *n = x + kTileFloats;
  float *sum = n + kTileFloats, *beta = sum + kTile, *grown = beta + kTile,
        *scratch = grown + kTile;
  for_tile(s, [](float& y, int, int) { y = 0; });
  for (int64_t chunk = 0; chunk < n_chunks(call); ++chunk) {
    float* saved = head.state(chunk);
    for_tile(s, [=](float& y, int i, int j) { saved[i * kTile + j] = y; });
    head.load_k(k, chunk);
    head.load_gates(sum, beta, grown, scratch, chunk);
    multiply<false, true>(a, k, k);
    for_tile(a, [=](float& y, int i, int j) { y = i > j ? y * expf(sum[i] - sum[j]) : 0.0F; });
    invert_unit_lower(t, a, beta, x);
    multiply<false, false>(x, k, s);
    new_values(head, x, beta, grown, chunk);
    multiply<false, false>(n, t, x);
    float* q = t;
    head.load_q(q, chunk);
    multiply<false, true>(a, q, k);
    for_tile(a, [=](float& y, int i, int j) { y = i >= j ? y * expf(sum[i] - sum[j]) : 0.0F; });
    multiply<false, false>(x, q, s);
    for_tile(x, [=](float& y, int i, int) { y *= grown[i]; });
    multiply<false, false, true>(x, a, n);
    head.store(call.out, x, chunk);
    const float last = sum[kTile - 1];
    for_tile(k, [=](float& y, int i, int) { y *= expf(last - sum[i]); });
    for_tile(s, [=](float& y, int, int) { y *= expf(last); });
    multiply<true, false, true>(s, k, n);
  }
}

/// Names: d_x is the gradient of x. Tiles are reused as soon as their content is no longer needed.
CHIMERE_BLOCK void delta_rule_backward(const DeltaRule& call, int64_t index, float* memory) {
  const DeltaHead head(call, index);
  float* tile[kBackwardTiles];
  for (int i = 0; i < kBackwardTiles; ++i) tile[i] = memory + i * kTileFloats;
  float *k = tile[0], *q = tile[1], *s = tile[2], *d_s = tile[3], *d_o = tile[4], *a = tile[5],
        *t = tile[6], *x = tile[7], *n = tile[8], *p = tile[9], *d_m = tile[10], *d_n = tile[11],
        *d_x = tile[12];
  float* vectors = memory + kBackwardTiles * kTileFloats;
  float *sum = vectors, *beta = sum + kTile, *grown = beta + kTile, *scratch = grown + kTile,
        *d_sum = scratch + kTile, *d_beta = d_sum + kTile, *d_last = d_beta + kTile,
        *partial = d_last + kTile;
  const int64_t v_width = call.n_v * kTile, width = head.mixed_width();
  for_tile(d_s, [](float& y, int, int) { y = 0; });
  for (int64_t chunk = n_chunks(call) - 1; chunk >= 0; --chunk) {
    // Recompute the forward pass.
    head.load_k(k, chunk);
    head.load_q(q, chunk);
    head.load(d_o, call.d_out, v_width, head.value_head * kTile, chunk);
    head.load_gates(sum, beta, grown, scratch, chunk);
    const float* saved = head.state(chunk);
    for_tile(s, [=](float& y, int i, int j) { y = saved[i * kTile + j]; });
    for_each(kTile, [=](int i) { d_sum[i] = d_beta[i] = d_last[i] = 0; });
    multiply<false, true>(a, k, k);
    for_tile(a, [=](float& y, int i, int j) { y = i > j ? y * expf(sum[i] - sum[j]) : 0.0F; });
    invert_unit_lower(t, a, beta, p);
    multiply<false, false>(x, k, s);
    new_values(head, x, beta, grown, chunk);
    multiply<false, false>(n, t, x);
    // O = E (Q S) + P N: gradients of P (as d_m, that of Q K^T) and, in d_n for now, P d_P.
    multiply<false, true>(p, q, k);
    multiply<false, true>(d_m, d_o, n);
    for_tile(p, [=](float& y, int i, int j) {
      const float ratio = i >= j ? expf(sum[i] - sum[j]) : 0.0F;
      const int at = i * kStride + j;
      y *= ratio;
      d_n[at] = y * d_m[at];
      d_m[at] *= ratio;
    });
    add_sums<false>(d_sum, partial, 1, [=](int i, int j) { return element(d_n, i, j); });
    add_sums<true>(d_sum, partial, -1, [=](int i, int j) { return element(d_n, i, j); });
    // N is read by O and by S'.
    const float last = sum[kTile - 1];
    multiply<false, false>(d_n, k, d_s);
    for_tile(d_n, [=](float& y, int i, int) { y *= expf(last - sum[i]); });
    multiply<true, false, true>(d_n, p, d_o);
    multiply<true, false>(d_x, t, d_n);
    float* d_qk = t;
    multiply<false, true>(d_qk, d_o, s);
    for_tile(d_qk, [=](float& y, int i, int) { y *= grown[i]; });
    add_sums<false>(d_sum, partial, 1,
                    [=](int i, int j) { return element(d_qk, i, j) * element(q, i, j); });
    multiply<false, false, true>(d_qk, d_m, k);
    head.store(call.d_q, d_qk, chunk);
    // Keys: as what S' takes in, in Q K^T, in A on both sides, and in K S.
    multiply<false, true>(d_qk, n, d_s);
    for_tile(d_qk, [=](float& y, int i, int) { y *= expf(last - sum[i]); });
    for_each(kTile, [=](int i) { scratch[i] = 0; });
    add_sums<false>(scratch, partial, 1,
                    [=](int i, int j) { return element(d_qk, i, j) * element(k, i, j); });
    for_each(kTile, [=](int i) {
      d_sum[i] -= scratch[i];
      d_last[i] += scratch[i];
    });
    multiply<true, false, true>(d_qk, d_m, q);
    multiply<false, true>(d_m, d_x, n);  // minus the gradient of A
    for_tile(d_m, [=](float& y, int i, int j) {
      const int at = i * kStride + j;
      d_n[at] = i > j ? -y * beta[i] * a[at] : 0.0F;
      y = i > j ? -y * beta[i] * expf(sum[i] - sum[j]) : 0.0F;
    });
    add_sums<false>(d_sum, partial, 1, [=](int i, int j) { return element(d_n, i, j); });
    add_sums<true>(d_sum, partial, -1, [=](int i, int j) { return element(d_n, i, j); });
    multiply<false, false, true>(d_qk, d_m, k);
    multiply<true, false, true>(d_qk, d_m, k);
    float* d_r = p;
    for_tile(d_r, [=](float& y, int i, int j) { y = -beta[i] * grown[i] * element(d_x, i, j); });
    multiply<false, true, true>(d_qk, d_r, s);
    head.store(call.d_k, d_qk, chunk);
    // Values, beta (A N + N = X gives d_beta = d_X N / beta) and the decay in X.
    add_sums<false>(d_beta, partial, 1,
                    [=](int i, int j) { return element(d_x, i, j) * element(n, i, j); });
    const Storage* v = head.value_row(chunk);
    const int64_t left = call.n_time - chunk * kTile;
    for_tile(x, [=](float& y, int i, int j) {
      const float value = i < left ? static_cast<float>(v[i * width + j]) : 0.0F;
      y = element(d_x, i, j) * (y - beta[i] * value);
    });
    add_sums<false>(d_sum, partial, 1, [=](int i, int j) { return element(x, i, j); });
    for_tile(d_x, [=](float& y, int i, int) { y *= beta[i]; });
    head.store(call.d_v, d_x, chunk);
    // The state before the chunk.
    add_sums<false>(d_last, partial, expf(last),
                    [=](int i, int j) { return element(d_s, i, j) * element(s, i, j); });
    for_tile(d_s, [=](float& y, int, int) { y *= expf(last); });
    for_tile(q, [=](float& y, int i, int) { y *= grown[i]; });
    multiply<true, false, true>(d_s, q, d_o);
    multiply<true, false, true>(d_s, k, d_r);
    // G is a running sum, and its last value also stands in S'.
    const int64_t base = (head.batch * call.n_time + chunk * kTile) * call.n_v + head.value_head;
    for_each(kTile, [=](int i) {
      if (i >= left) return;
      float total = 0;
      for (int j = 0; j < kTile; ++j) total += d_last[j] + (j >= i ? d_sum[j] : 0.0F);
      call.d_g[base + i * call.n_v] = total;
      call.d_beta[base + i * call.n_v] = beta[i] > 0 ? d_beta[i] / beta[i] : 0.0F;
    });
  }
}

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_KERNELS_DELTA_RULE_BLOCK_H_
