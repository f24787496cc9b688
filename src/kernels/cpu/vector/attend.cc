#include "kernels/cpu/vector/functions.h"
#include "kernels/cpu/vector/hadamard.h"
#include "kernels/cpu/vector/kv_elements.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

constexpr int kSplit = 256;
/// Queries that a loop keeps in registers, and vectors of 16 positions or elements per query.
constexpr int kBlock = F32x16::kRegisters >= 32 ? 8 : 4;
constexpr int kTiles = F32x16::kRegisters >= 32 ? 2 : 1;
/// Positions of the values between two calls of Prefetcher::step().
constexpr int kPrefetchPositions = 4;

/// Prefetches bytes into the cache, a few lines at a time between other work.
class Prefetcher {
 public:
  /// Prefetches nothing.
  Prefetcher() = default;
  /// Prefetches `bytes` from each of `pages` within `turns` calls of step().
  CHIMERE_INLINE Prefetcher(const uint8_t* const* pages, int n_pages, int64_t bytes, int turns)
      : page_(pages), pages_end_(pages + n_pages), bytes_(bytes) {
    constexpr int64_t kLine = 64;
    lines_ = static_cast<int>((n_pages * bytes / kLine + turns - 1) / turns);
  }
  CHIMERE_INLINE void step() {
    constexpr int64_t kLine = 64;
    if (page_ == pages_end_) return;
    for (int i = 0; i < lines_; ++i) {
      __builtin_prefetch(*page_ + at_, 0, 2);
      at_ += kLine;
    }
    if (at_ >= bytes_) {
      at_ = 0;
      ++page_;
    }
  }

 private:
  const uint8_t* const* page_ = nullptr;
  const uint8_t* const* pages_end_ = nullptr;
  int64_t bytes_ = 0;
  int64_t at_ = 0;
  int lines_ = 0;
};

/// The first position that any of these queries sees; 256 if they see none.
CHIMERE_INLINE int min_first(const SplitUnit& u, int query, int count) {
  int first = kSplit;
  for (int i = query; i < query + count; ++i) {
    if (u.n_valid[i] > 0 && u.first_valid[i] < first) first = u.first_valid[i];
  }
  return first;
}

CHIMERE_INLINE int pages_of(int positions) { return (positions + kPage - 1) / kPage; }

CHIMERE_INLINE int max_valid(const SplitUnit& u, int query, int count) {
  int most = 0;
  for (int i = query; i < query + count; ++i) {
    if (u.n_valid[i] > most) most = u.n_valid[i];
  }
  return most;
}

template <class E>
CHIMERE_INLINE const uint8_t* key_tile(const SplitUnit& u, int position) {
  return u.k[position / kPage] + position % kPage / kKeyTile * kKeyTile * E::bytes(u.head_dim);
}

CHIMERE_INLINE F32x16 load_scales(const uint8_t* scales, int position) {
  return F32x16::load_f16(reinterpret_cast<const uint16_t*>(scales) + position);
}

/// Scores of kQueries queries with kTiles vectors of positions starting at `position`; `tile` holds
/// the first of them.
template <class E, int kQueries>
CHIMERE_INLINE void score_tile(const SplitUnit& u, int query, const uint8_t* tile, int position,
                               Prefetcher& ahead) {
  F32x16 sum[kQueries][kTiles];
  const float* q[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    q[i] = u.q[query + i];
    for (int t = 0; t < kTiles; ++t) sum[i][t] = F32x16::set(0);
  }
  const int in_tile = position % kKeyTile;
  for (int d = 0; d < u.head_dim; d += E::kPiece, tile += kKeyTile * E::bytes(E::kPiece)) {
    ahead.step();
    F32x16 scale[kTiles];
    if constexpr (E::kScaled) {
      for (int t = 0; t < kTiles; ++t) scale[t] = load_scales(tile, in_tile + t * kLanes);
    }
    for (int j = 0; j < E::kPiece; j += E::kStep) {
      F32x16 k[kTiles][E::kStep];
      for (int t = 0; t < kTiles; ++t) E::keys(tile, j, in_tile + t * kLanes, k[t]);
      for (int step = 0; step < E::kStep; ++step) {
        if constexpr (E::kScaled) {
          for (int t = 0; t < kTiles; ++t) k[t][step] = k[t][step] * scale[t];
        }
        for (int i = 0; i < kQueries; ++i) {
          const F32x16 x = F32x16::set(q[i][d + j + step]);
          for (int t = 0; t < kTiles; ++t) sum[i][t] = fma(x, k[t][step], sum[i][t]);
        }
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* scores = u.scores + static_cast<int64_t>(query + i) * kSplit + position;
    for (int t = 0; t < kTiles; ++t) {
      (sum[i][t] * F32x16::set(u.scale)).store(scores + t * kLanes);
    }
  }
}

/// The first block of queries prefetches the values, which are read next.
template <class E, int kQueries>
CHIMERE_INLINE void score_queries(const SplitUnit& u, int query) {
  const int positions = max_valid(u, query, kQueries);
  if (positions == 0) return;
  const int first = min_first(u, query, kQueries) / (kTiles * kLanes) * (kTiles * kLanes);
  const int tiles = (positions - first + kTiles * kLanes - 1) / (kTiles * kLanes);
  Prefetcher ahead;
  if (query == 0) {
    const int page = first / kPage;
    ahead = Prefetcher(u.v + page, pages_of(positions) - page, u.v_bytes,
                       tiles * u.head_dim / E::kPiece);
  }
  for (int p = first; p < positions; p += kTiles * kLanes) {
    score_tile<E, kQueries>(u, query, key_tile<E>(u, p), p, ahead);
  }
}

/// A key tile as f32, [head_dim][32 positions].
template <class E>
CHIMERE_INLINE void decode_keys(const uint8_t* tile, int head_dim, float* out) {
  for (int d = 0; d < head_dim; d += E::kPiece, tile += kKeyTile * E::bytes(E::kPiece)) {
    for (int p = 0; p < kKeyTile; p += kLanes) {
      F32x16 scale;
      if constexpr (E::kScaled) scale = load_scales(tile, p);
      for (int j = 0; j < E::kPiece; j += E::kStep) {
        F32x16 k[E::kStep];
        E::keys(tile, j, p, k);
        for (int step = 0; step < E::kStep; ++step) {
          if constexpr (E::kScaled) k[step] = k[step] * scale;
          k[step].store(out + static_cast<int64_t>(d + j + step) * kKeyTile + p);
        }
      }
    }
  }
}

/// Scores one key tile after the other, from decoded copies.
template <int kQueries>
CHIMERE_INLINE void score_decoded(const SplitUnit& u, int query, int begin) {
  if (max_valid(u, query, kQueries) <= begin) return;
  if (min_first(u, query, kQueries) >= begin + kKeyTile) return;
  Prefetcher nothing;
  for (int p = begin; p < begin + kKeyTile; p += kTiles * kLanes) {
    score_tile<F32Elements, kQueries>(u, query, reinterpret_cast<const uint8_t*>(u.decoded), p,
                                      nothing);
  }
}

/// Scores of all queries. If there are more queries than a block holds, tiles are read from a
/// decoded copy.
template <class E>
void score(const SplitUnit& u) {
  const int n = u.n_queries;
  int query = 0;
  if (n <= kBlock) {
    if (n == kBlock) return score_queries<E, kBlock>(u, 0);
    for (; query + 4 <= n; query += 4) score_queries<E, 4>(u, query);
    for (; query + 2 <= n; query += 2) score_queries<E, 2>(u, query);
    if (query < n) score_queries<E, 1>(u, query);
    return;
  }
  const int positions = max_valid(u, 0, n);
  for (int begin = min_first(u, 0, n) / kKeyTile * kKeyTile; begin < positions; begin += kKeyTile) {
    decode_keys<E>(key_tile<E>(u, begin), u.head_dim, u.decoded);
    for (query = 0; query + kBlock <= n; query += kBlock) score_decoded<kBlock>(u, query, begin);
    for (; query + 2 <= n; query += 2) score_decoded<2>(u, query, begin);
    if (query < n) score_decoded<1>(u, query, begin);
  }
}

/// Turns scores into weights relative to their maximum; stores the maximum and sum in the query's
/// part. Scores of positions that the query does not see may be anything, even NaN: they become
/// -infinity, with weight 0.
void weigh_query(float* scores, int first, int n_valid, float* part) {
  const F32x16 lowest = F32x16::set(-__builtin_inff());
  const int begin = first / kLanes * kLanes;
  F32x16 top = lowest;
  for (int p = begin; p < n_valid; p += kLanes) {
    const int n = n_valid - p < kLanes ? n_valid - p : kLanes;
    F32x16 s = first_lanes(n, F32x16::load(scores + p), lowest);
    if (p < first) s = first_lanes(first - p, lowest, s);
    s.store(scores + p);
    top = max(s, top);
  }
  const float max_score = largest(top);
  F32x16 sum = F32x16::set(0);
  for (int p = begin; p < n_valid; p += kLanes) {
    const F32x16 w = exp_lanes(F32x16::load(scores + p) - F32x16::set(max_score));
    w.store(scores + p);
    sum = sum + w;
  }
  part[0] = max_score;
  part[1] = tree_sum(sum);
}

/// Adds the weighted values of positions [begin, end), for kQueries queries and kVectors vectors of
/// elements: elements from `from` on of the values go to elements from `to` on of the result.
template <class E, int kQueries, int kVectors>
CHIMERE_INLINE void add_positions(const SplitUnit& u, int query, int from, int to, int begin,
                                  int end, Prefetcher& ahead) {
  F32x16 sum[kQueries][kVectors];
  const float* weights[kQueries];
  for (int i = 0; i < kQueries; ++i) {
    weights[i] = u.scores + static_cast<int64_t>(query + i) * kSplit;
    const float* values = u.part[query + i] + kPartValues + to;
    for (int t = 0; t < kVectors; ++t) sum[i][t] = F32x16::load(values + t * kLanes);
  }
  for (int p = begin; p < end;) {
    const int stop = end < (p / kPage + 1) * kPage ? end : (p / kPage + 1) * kPage;
    const uint8_t* piece[kVectors];
    for (int t = 0; t < kVectors; ++t) {
      piece[t] = u.v[p / kPage] + (from + t * kLanes) / E::kPiece * kPage * E::bytes(E::kPiece);
    }
    float scales[kPage];
    if constexpr (E::kScaled) {
      for (int i = 0; i < kPage; i += kLanes) load_scales(piece[0], i).store(scales + i);
    }
    for (; p < stop; ++p) {
      if (p % kPrefetchPositions == 0) ahead.step();
      F32x16 v[kVectors];
      for (int t = 0; t < kVectors; ++t) {
        v[t] = E::value(piece[t], p % kPage, (from + t * kLanes) % E::kPiece / kLanes);
        if constexpr (E::kScaled) v[t] = v[t] * F32x16::set(scales[p % kPage]);
      }
      for (int i = 0; i < kQueries; ++i) {
        const F32x16 w = F32x16::set(weights[i][p]);
        for (int t = 0; t < kVectors; ++t) sum[i][t] = fma(w, v[t], sum[i][t]);
      }
    }
  }
  for (int i = 0; i < kQueries; ++i) {
    float* values = u.part[query + i] + kPartValues + to;
    for (int t = 0; t < kVectors; ++t) sum[i][t].store(values + t * kLanes);
  }
}

template <class E, int kQueries>
CHIMERE_INLINE void add_elements(const SplitUnit& u, int query, int from, int to, int count,
                                 int begin, int end, Prefetcher& ahead) {
  int d = 0;
  for (; d + kTiles * kLanes <= count; d += kTiles * kLanes) {
    add_positions<E, kQueries, kTiles>(u, query, from + d, to + d, begin, end, ahead);
  }
  for (; d < count; d += kLanes) {
    add_positions<E, kQueries, 1>(u, query, from + d, to + d, begin, end, ahead);
  }
}

/// `count` elements. Positions visible to all kQueries are added for all at once, the others query
/// by query, so that each query's sum is in the order of the positions.
template <class E, int kQueries>
CHIMERE_INLINE void add_for_queries(const SplitUnit& u, int query, int from, int to, int count,
                                    Prefetcher& ahead) {
  int common = kSplit;
  int begin = 0;
  for (int i = query; i < query + kQueries; ++i) {
    if (u.n_valid[i] < common) common = u.n_valid[i];
    if (u.first_valid[i] > begin) begin = u.first_valid[i];
  }
  if constexpr (kQueries > 1) {
    if (begin > 0) {
      if (begin > common) begin = common;
      for (int i = query; i < query + kQueries; ++i) {
        const int end = u.n_valid[i] < begin ? u.n_valid[i] : begin;
        if (u.first_valid[i] >= end) continue;
        add_elements<E, 1>(u, i, from, to, count, u.first_valid[i], end, ahead);
      }
    }
  }
  add_elements<E, kQueries>(u, query, from, to, count, begin, common, ahead);
  if constexpr (kQueries > 1) {
    for (int i = query; i < query + kQueries; ++i) {
      if (u.n_valid[i] <= common) continue;
      const int rest = u.first_valid[i] > common ? u.first_valid[i] : common;
      add_elements<E, 1>(u, i, from, to, count, rest, u.n_valid[i], ahead);
    }
  }
}

/// `count` elements (at most 32) of all positions as f32, in the layout of an f32 page of that head
/// size.
template <class E>
CHIMERE_INLINE void decode_values(const SplitUnit& u, int from, int count, int first, int positions,
                                  float* out) {
  for (int d = from; d < from + count; d += kLanes) {
    for (int p = first; p < positions; ++p) {
      const uint8_t* piece = u.v[p / kPage] + d / E::kPiece * kPage * E::bytes(E::kPiece);
      F32x16 v = E::value(piece, p % kPage, d % E::kPiece / kLanes);
      if constexpr (E::kScaled) {
        v = v * F32x16::set(F32x16::widen_f16(reinterpret_cast<const uint16_t*>(piece)[p % kPage]));
      }
      v.store(out + static_cast<int64_t>(p / kPage) * kPage * count + (d - from) * kPage +
              p % kPage * kLanes);
    }
  }
}

/// The first block of queries prefetches the keys of the next split.
template <class E, int kQueries>
CHIMERE_INLINE void add_direct(const SplitUnit& u, int query) {
  Prefetcher ahead;
  const int positions = max_valid(u, query, kQueries);
  if (query == 0 && u.n_next > 0 && positions == kSplit) {
    const int passes = (u.head_dim + kTiles * kLanes - 1) / (kTiles * kLanes);
    ahead =
        Prefetcher(u.next_k, pages_of(u.n_next), u.k_bytes, passes * kSplit / kPrefetchPositions);
  }
  add_for_queries<E, kQueries>(u, query, 0, 0, u.head_dim, ahead);
}

/// Elements [from, from + count) from a decoded copy.
template <class E>
CHIMERE_INLINE void add_decoded(const SplitUnit& u, int from, int count) {
  decode_values<E>(u, from, count, min_first(u, 0, u.n_queries), max_valid(u, 0, u.n_queries),
                   u.decoded);
  SplitUnit copy = u;
  const uint8_t* pages[kSplit / kPage];
  for (int p = 0; p < kSplit / kPage; ++p) {
    pages[p] =
        reinterpret_cast<const uint8_t*>(u.decoded + static_cast<int64_t>(p) * kPage * count);
  }
  copy.v = pages;
  Prefetcher nothing;
  int query = 0;
  for (; query + kBlock <= u.n_queries; query += kBlock) {
    add_for_queries<F32Elements, kBlock>(copy, query, 0, from, count, nothing);
  }
  for (; query + 2 <= u.n_queries; query += 2) {
    add_for_queries<F32Elements, 2>(copy, query, 0, from, count, nothing);
  }
  if (query < u.n_queries) {
    add_for_queries<F32Elements, 1>(copy, query, 0, from, count, nothing);
  }
}

/// All queries. If there are more queries than a block holds, values are read from a decoded copy.
template <class E>
void add_values(const SplitUnit& u) {
  const int n = u.n_queries;
  for (int i = 0; i < n; ++i) {
    float* values = u.part[i] + kPartValues;
    if (u.n_valid[i] == 0) continue;
    for (int d = 0; d < u.head_dim; d += kLanes) F32x16::set(0).store(values + d);
  }
  if (n <= kBlock) {
    if (n == kBlock) return add_direct<E, kBlock>(u, 0);
    int query = 0;
    for (; query + 4 <= n; query += 4) add_direct<E, 4>(u, query);
    for (; query + 2 <= n; query += 2) add_direct<E, 2>(u, query);
    if (query < n) add_direct<E, 1>(u, query);
    return;
  }
  constexpr int kElements = 32;
  for (int d = 0; d < u.head_dim; d += kElements) {
    add_decoded<E>(u, d, u.head_dim - d < kElements ? u.head_dim - d : kElements);
  }
}

void weigh(const SplitUnit& u) {
  for (int i = 0; i < u.n_queries; ++i) {
    if (u.n_valid[i] == 0) continue;
    weigh_query(u.scores + static_cast<int64_t>(i) * kSplit, u.first_valid[i], u.n_valid[i],
                u.part[i]);
  }
}

template <class E>
void add_kernels(VectorKernels& kernels, KvType type) {
  kernels.score[static_cast<int>(type)] = score<E>;
  kernels.add_values[static_cast<int>(type)] = add_values<E>;
}

}  // namespace

void add_attend_kernels(VectorKernels& kernels) {
  add_kernels<F32Elements>(kernels, KvType::kF32);
  add_kernels<F16Elements>(kernels, KvType::kF16);
  add_kernels<Bf16Elements>(kernels, KvType::kBF16);
  add_kernels<Q8Elements>(kernels, KvType::kQ8_0);
  add_kernels<Q4Elements>(kernels, KvType::kQ4_0);
  kernels.weigh = weigh;
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

void fold_sink(float sink, int head_dim, float* all) {
  const float max_score = sink > all[0] ? sink : all[0];
  const float keep = exp_f32(all[0] - max_score);
  all[0] = max_score;
  all[1] = all[1] * keep + exp_f32(sink - max_score);
  for (int d = kPartValues; d < kPartValues + head_dim; d += kLanes) {
    (F32x16::load(all + d) * F32x16::set(keep)).store(all + d);
  }
}

void finish_part(const float* part, const float* gate, int head_dim, bool hadamard, float* out) {
  const F32x16 sum = F32x16::set(part[1]);
  for (int d = 0; d < head_dim; d += kLanes) {
    (F32x16::load(part + kPartValues + d) / sum).store(out + d);
  }
  if (hadamard) rotate_head(out, head_dim);
  if (gate == nullptr) return;
  for (int d = 0; d < head_dim; d += kLanes) {
    (F32x16::load(out + d) * sigmoid_lanes(F32x16::load(gate + d))).store(out + d);
  }
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
