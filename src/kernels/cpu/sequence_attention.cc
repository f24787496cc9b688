#include "kernels/cpu/sequence_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/for_units.h"

namespace chimere::kernels::cpu {

void SequenceAttention::rotate(const AttentionShape& shape, int heads, MatrixView x) {
  for_units(pool_, x.rows, x.rows * heads * shape.rope_dims / 8, [&](int64_t r, int /*worker*/) {
    for (int h = 0; h < heads; ++h) {
      NormRope unit;
      unit.x = unit.y = x.row(r) + static_cast<int64_t>(h) * shape.head_dim;
      unit.head_dim = shape.head_dim;
      unit.rope_dims = shape.rope_dims;
      unit.cos_sin = rope_.row(r);
      kernels_.norm_rope(unit);
    }
  });
}

void SequenceAttention::attend(const BatchView& batch, const SequenceAttentionShape& shape,
                               MatrixView q, MatrixView k, ConstMatrixView v, MatrixView out) {
  const AttentionShape& a = shape.heads;
  if (a.rope_dims > 0) {
    rope_.prepare(batch.row_position, a.rope_dims, a.rope_base, a.rope_factors);
    rotate(a, a.n_heads, q);
    rotate(a, a.n_kv_heads, k);
  }
  struct Tile {
    int64_t row = 0;  ///< of the first query
    int32_t first = 0;
    int32_t n_queries = 0;
    int32_t n_rows = 0;
  };
  std::vector<Tile> tiles;
  int64_t pairs = 0;  // of queries and keys
  for (int32_t r = 0; r < batch.n_rows;) {
    const int32_t n_rows = batch.visible(r);
    for (int32_t first = 0; first < n_rows; first += kMaxQueries) {
      const int32_t queries = std::min<int32_t>(kMaxQueries, n_rows - first);
      tiles.push_back({int64_t{r} + first, first, queries, n_rows});
      pairs += int64_t{queries} * n_rows;
    }
    r += n_rows;
  }
  const int64_t units = static_cast<int64_t>(tiles.size()) * a.n_heads;
  // A pair takes 2 head_dim products.
  const int64_t ns = pairs * a.n_heads * a.head_dim / 16;
  for_units(pool_, units, ns, [&](int64_t i, int worker) {
    const Tile& tile = tiles[static_cast<size_t>(i / a.n_heads)];
    const int64_t head = i % a.n_heads;
    const int64_t kv_head = head / (a.n_heads / a.n_kv_heads);
    SequenceUnit unit;
    unit.head_dim = a.head_dim;
    unit.n_rows = tile.n_rows;
    unit.first = tile.first;
    unit.n_queries = tile.n_queries;
    unit.q = q.row(tile.row) + head * a.head_dim;
    unit.q_stride = q.stride;
    unit.k = k.row(tile.row - tile.first) + kv_head * a.head_dim;
    unit.k_stride = k.stride;
    unit.v = v.row(tile.row - tile.first) + kv_head * a.head_dim;
    unit.v_stride = v.stride;
    unit.scale = a.scale;
    unit.slope = shape.alibi_slopes != nullptr ? shape.alibi_slopes[head] : 0;
    unit.window = shape.window;
    unit.scratch = scratch_.get(worker, sequence_scratch_floats(tile.n_rows, a.head_dim));
    unit.out = out.row(tile.row) + head * a.head_dim;
    unit.out_stride = out.stride;
    kernels_.attend_sequence(unit);
  });
}

}  // namespace chimere::kernels::cpu
