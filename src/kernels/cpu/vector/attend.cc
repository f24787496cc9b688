#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

constexpr int kPage = 64;
constexpr int kSplit = 256;
constexpr int kKeyTile = 32;

struct F32Elements {
  using Stored = float;
  CHIMERE_INLINE static F32x16 load(const Stored* p) { return F32x16::load(p); }
  CHIMERE_INLINE static void store(F32x16 x, Stored* p) { x.store(p); }
};

struct F16Elements {
  using Stored = uint16_t;
  CHIMERE_INLINE static F32x16 load(const Stored* p) { return F32x16::load_f16(p); }
  CHIMERE_INLINE static void store(F32x16 x, Stored* p) { x.store_f16(p); }
};

template <class E>
void append_key(const float* x, int head_dim, int slot, uint8_t* page) {
  using Stored = typename E::Stored;
  Stored* tile = reinterpret_cast<Stored*>(page) +
                 static_cast<int64_t>(slot / kKeyTile) * head_dim * kKeyTile + slot % kKeyTile;
  for (int d = 0; d < head_dim; d += kLanes) {
    Stored rounded[kLanes];
    E::store(F32x16::load(x + d), rounded);
    for (int i = 0; i < kLanes; ++i) tile[static_cast<int64_t>(d + i) * kKeyTile] = rounded[i];
  }
}

template <class E>
void append_value(const float* x, int head_dim, int slot, uint8_t* page) {
  auto* tile = reinterpret_cast<typename E::Stored*>(page) + slot * kLanes;
  for (int d = 0; d < head_dim; d += kLanes) {
    E::store(F32x16::load(x + d), tile + static_cast<int64_t>(d) * kPage);
  }
}

/// Scores of kQueries queries with 16 kTiles positions of a key tile.
template <class E, int kQueries, int kTiles>
CHIMERE_INLINE void score_tile(const SplitUnit& u, int query, const typename E::Stored* keys,
                               int position) {
  F32x16 sum[kQueries][kTiles];
  const float* q[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    q[i] = u.q[query + i];
    for (int t = 0; t < kTiles; ++t) sum[i][t] = F32x16::set(0);
  }
  for (int d = 0; d < u.head_dim; ++d) {
    F32x16 k[kTiles];
    for (int t = 0; t < kTiles; ++t) k[t] = E::load(keys + t * kLanes);
    keys += kKeyTile;
    for (int i = 0; i < kQueries; ++i) {
      const F32x16 x = F32x16::set(q[i][d]);
      for (int t = 0; t < kTiles; ++t) sum[i][t] = fma(x, k[t], sum[i][t]);
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* scores = u.scores + static_cast<int64_t>(query + i) * kSplit + position;
    for (int t = 0; t < kTiles; ++t) {
      (sum[i][t] * F32x16::set(u.scale)).store(scores + t * kLanes);
    }
  }
}

template <class E, int kQueries>
CHIMERE_INLINE void score_queries(const SplitUnit& u, int query) {
  constexpr int kTiles = F32x16::kRegisters >= 32 ? 2 : 1;
  int positions = 0;
  for (int i = 0; i < kQueries; ++i) {
    if (u.n_valid[query + i] > positions) positions = u.n_valid[query + i];
  }
  for (int p = 0; p < positions; p += kTiles * kLanes) {
    const auto* keys = reinterpret_cast<const typename E::Stored*>(u.k[p / kPage]) +
                       static_cast<int64_t>(p % kPage / kKeyTile) * u.head_dim * kKeyTile +
                       p % kKeyTile;
    score_tile<E, kQueries, kTiles>(u, query, keys, p);
  }
}

/// Scores to weights relative to their maximum; the maximum and sum go to the query's part. Scores
/// of positions that the query does not see may be anything, even NaN: they become -infinity, whose
/// weight is 0.
CHIMERE_INLINE void weigh(float* scores, int n_valid, float* part) {
  const F32x16 lowest = F32x16::set(-__builtin_inff());
  F32x16 top = lowest;
  for (int p = 0; p < n_valid; p += kLanes) {
    const int n = n_valid - p < kLanes ? n_valid - p : kLanes;
    const F32x16 s = first_lanes(n, F32x16::load(scores + p), lowest);
    s.store(scores + p);
    top = max(s, top);
  }
  const float max_score = largest(top);
  F32x16 sum = F32x16::set(0);
  for (int p = 0; p < n_valid; p += kLanes) {
    const F32x16 w = exp_lanes(F32x16::load(scores + p) - F32x16::set(max_score));
    w.store(scores + p);
    sum = sum + w;
  }
  part[0] = max_score;
  part[1] = tree_sum(sum);
}

/// Adds the values of positions [begin, end), weighted, for kQueries queries and 16 kTiles
/// dimensions.
template <class E, int kQueries, int kTiles>
CHIMERE_INLINE void add_values(const SplitUnit& u, int query, int dimension, int begin, int end) {
  F32x16 sum[kQueries][kTiles];
  const float* weights[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    weights[i] = u.scores + static_cast<int64_t>(query + i) * kSplit;
    const float* values = u.part[query + i] + kPartValues + dimension;
    for (int t = 0; t < kTiles; ++t) sum[i][t] = F32x16::load(values + t * kLanes);
  }
  for (int p = begin; p < end;) {
    const int stop = end < (p / kPage + 1) * kPage ? end : (p / kPage + 1) * kPage;
    const auto* values = reinterpret_cast<const typename E::Stored*>(u.v[p / kPage]) +
                         static_cast<int64_t>(dimension) * kPage + p % kPage * kLanes;
    for (; p < stop; ++p, values += kLanes) {
      F32x16 v[kTiles];
      for (int t = 0; t < kTiles; ++t) v[t] = E::load(values + t * kPage * kLanes);
      for (int i = 0; i < kQueries; ++i) {
        const F32x16 w = F32x16::set(weights[i][p]);
        for (int t = 0; t < kTiles; ++t) sum[i][t] = fma(w, v[t], sum[i][t]);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* values = u.part[query + i] + kPartValues + dimension;
    for (int t = 0; t < kTiles; ++t) sum[i][t].store(values + t * kLanes);
  }
}

template <class E, int kQueries>
CHIMERE_INLINE void add_all_values(const SplitUnit& u, int query, int begin, int end) {
  constexpr int kTiles = F32x16::kRegisters >= 32 ? 2 : 1;
  int d = 0;
  for (; d + kTiles * kLanes <= u.head_dim; d += kTiles * kLanes) {
    add_values<E, kQueries, kTiles>(u, query, d, begin, end);
  }
  for (; d < u.head_dim; d += kLanes) add_values<E, kQueries, 1>(u, query, d, begin, end);
}

/// Positions that all kQueries see are added for all at once, the rest query by query.
template <class E, int kQueries>
CHIMERE_INLINE void value_queries(const SplitUnit& u, int query) {
  int common = kSplit;
  for (int i = 0; i < kQueries; ++i) {
    if (u.n_valid[query + i] < common) common = u.n_valid[query + i];
  }
  add_all_values<E, kQueries>(u, query, 0, common);
  if constexpr (kQueries > 1) {
    for (int i = 0; i < kQueries; ++i) {
      if (u.n_valid[query + i] > common) {
        add_all_values<E, 1>(u, query + i, common, u.n_valid[query + i]);
      }
    }
  }
}

template <class K, class V>
void attend_split(const SplitUnit& u) {
  constexpr int kBlock = F32x16::kRegisters >= 32 ? 8 : 4;
  int query = 0;
  for (; query + kBlock <= u.n_queries; query += kBlock) score_queries<K, kBlock>(u, query);
  for (; query < u.n_queries; ++query) score_queries<K, 1>(u, query);
  for (int i = 0; i < u.n_queries; ++i) {
    if (u.n_valid[i] == 0) continue;
    weigh(u.scores + static_cast<int64_t>(i) * kSplit, u.n_valid[i], u.part[i]);
    float* values = u.part[i] + kPartValues;
    for (int d = 0; d < u.head_dim; d += kLanes) F32x16::set(0).store(values + d);
  }
  query = 0;
  for (; query + kBlock <= u.n_queries; query += kBlock) value_queries<V, kBlock>(u, query);
  for (; query < u.n_queries; ++query) value_queries<V, 1>(u, query);
}

template <class K>
void add_key_kernels(VectorKernels& kernels, KvType type) {
  const int k = static_cast<int>(type);
  kernels.append_key[k] = append_key<K>;
  kernels.append_value[k] = append_value<K>;
  kernels.attend_split[k][static_cast<int>(KvType::kF32)] = attend_split<K, F32Elements>;
  kernels.attend_split[k][static_cast<int>(KvType::kF16)] = attend_split<K, F16Elements>;
}

}  // namespace

void add_kv_kernels(VectorKernels& kernels) {
  add_key_kernels<F32Elements>(kernels, KvType::kF32);
  add_key_kernels<F16Elements>(kernels, KvType::kF16);
}

void fold_part(const float* next, int head_dim, float* all) {
  const float max_score = next[0] > all[0] ? next[0] : all[0];
  const float keep = exp_f32(all[0] - max_score);
  const float take = exp_f32(next[0] - max_score);
  all[0] = max_score;
  all[1] = __builtin_fmaf(next[1], take, all[1] * keep);
  for (int d = kPartValues; d < kPartValues + head_dim; d += kLanes) {
    fma(F32x16::load(next + d), F32x16::set(take), F32x16::load(all + d) * F32x16::set(keep))
        .store(all + d);
  }
}

void finish_part(const float* part, const float* gate, int head_dim, float* out) {
  const F32x16 sum = F32x16::set(part[1]);
  for (int d = 0; d < head_dim; d += kLanes) {
    const F32x16 mean = F32x16::load(part + kPartValues + d) / sum;
    (mean * sigmoid_lanes(F32x16::load(gate + d))).store(out + d);
  }
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
