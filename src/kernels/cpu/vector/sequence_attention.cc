// Attention of some queries of a sequence over all of it, without a cache: scores of all positions,
// then weights, then the weighted sums of the values.
#include "kernels/cpu/vector/functions.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// Queries whose sums are in registers at the same time.
constexpr int kScoreQueries = F32x16::kRegisters >= 16 ? 8 : F32x16::kRegisters >= 8 ? 4 : 2;
constexpr int kValueQueries = F32x16::kRegisters >= 8 ? 4 : 2;
constexpr int kValueVectors = F32x16::kRegisters >= 16 ? 2 : 1;

struct Range {
  int begin;
  int end;
};

/// Positions that the query at `position` sees.
CHIMERE_INLINE Range visible(const SequenceUnit& u, int position) {
  if (u.window == 0) return {0, u.n_rows};
  const int begin = position - u.window;
  const int end = position + u.window + 1;
  return {begin > 0 ? begin : 0, end < u.n_rows ? end : u.n_rows};
}

/// Positions of a row of scores.
CHIMERE_INLINE int64_t score_stride(const SequenceUnit& u) { return (u.n_rows + 15) / 16 * 16; }

/// to[d, 16] = element d of the keys from position `first` on; zeros after the last.
void transpose_keys(const SequenceUnit& u, int first, float* to) {
  const float* k = u.k + first * u.k_stride;
  const int n = u.n_rows - first;
  if (n >= kLanes) {
    for (int d = 0; d < u.head_dim; ++d) {
      F32x16::load_strided(k + d, static_cast<int>(u.k_stride)).store(to + d * kLanes);
    }
    return;
  }
  for (int d = 0; d < u.head_dim; ++d) {
    for (int j = 0; j < kLanes; ++j) to[d * kLanes + j] = j < n ? k[j * u.k_stride + d] : 0;
  }
}

/// Scores of kQueries queries from `query` on and 16 positions from `first` on.
template <int kQueries>
CHIMERE_INLINE void score(const SequenceUnit& u, int query, int first, const float* keys,
                          float* scores) {
  const float* q = u.q + query * u.q_stride;
  F32x16 dot[kQueries];
  for (int i = 0; i < kQueries; ++i) dot[i] = F32x16::set(0);
  for (int d = 0; d < u.head_dim; ++d) {
    const F32x16 key = F32x16::load(keys + d * kLanes);
    for (int i = 0; i < kQueries; ++i) {
      dot[i] = fma(F32x16::set(q[i * u.q_stride + d]), key, dot[i]);
    }
  }
  static const float places[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F32x16 at = F32x16::load(places) + F32x16::set(static_cast<float>(first));
  for (int i = 0; i < kQueries; ++i) {
    F32x16 s = dot[i] * F32x16::set(u.scale);
    if (u.slope != 0) {
      const F32x16 own = F32x16::set(static_cast<float>(u.first + query + i));
      s = fma(F32x16::set(-u.slope), max(at - own, own - at), s);
    }
    s.store(scores + (query + i) * score_stride(u) + first);
  }
}

void score_all(const SequenceUnit& u, float* scores, float* keys) {
  const int begin = visible(u, u.first).begin / kLanes * kLanes;
  const int end = visible(u, u.first + u.n_queries - 1).end;
  for (int first = begin; first < end; first += kLanes) {
    transpose_keys(u, first, keys);
    int query = 0;
    for (; query + kScoreQueries <= u.n_queries; query += kScoreQueries) {
      score<kScoreQueries>(u, query, first, keys, scores);
    }
    for (; query < u.n_queries; ++query) score<1>(u, query, first, keys, scores);
  }
}

/// Lanes of the 16 positions from `first` on that the range contains; the others are `otherwise`.
CHIMERE_INLINE F32x16 within(const Range& range, int first, F32x16 x, F32x16 otherwise) {
  if (range.end - first < kLanes) x = first_lanes(range.end - first, x, otherwise);
  if (range.begin > first) x = first_lanes(range.begin - first, otherwise, x);
  return x;
}

/// Replaces a query's scores by their weights, 0 for positions that it does not see; returns the
/// sum.
float weigh(const Range& range, float* scores) {
  const int begin = range.begin / kLanes * kLanes;
  const F32x16 none = F32x16::set(-__builtin_inff());
  F32x16 most = none;
  for (int first = begin; first < range.end; first += kLanes) {
    most = max(within(range, first, F32x16::load(scores + first), none), most);
  }
  const F32x16 subtracted = F32x16::set(largest(most));
  F32x16 sums = F32x16::set(0);
  for (int first = begin; first < range.end; first += kLanes) {
    const F32x16 w =
        within(range, first, exp_lanes(F32x16::load(scores + first) - subtracted), F32x16::set(0));
    sums = sums + w;
    w.store(scores + first);
  }
  return tree_sum(sums);
}

/// sums[i, j] += the positions of the range, in rising order, for kQueries rows of weights and
/// kVectors vectors of the values from `v` on.
template <int kQueries, int kVectors>
CHIMERE_INLINE void add_values(const SequenceUnit& u, const Range& range, const float* weights,
                               const float* v, F32x16 (&sums)[kQueries][kVectors]) {
  const int64_t stride = score_stride(u);
  for (int p = range.begin; p < range.end; ++p) {
    F32x16 value[kVectors];
    for (int j = 0; j < kVectors; ++j) value[j] = F32x16::load(v + p * u.v_stride + j * kLanes);
    for (int i = 0; i < kQueries; ++i) {
      const F32x16 w = F32x16::set(weights[i * stride + p]);
      for (int j = 0; j < kVectors; ++j) sums[i][j] = fma(w, value[j], sums[i][j]);
    }
  }
}

/// The outputs of kQueries queries from `query` on, elements [d, d + 16 kVectors).
template <int kQueries, int kVectors>
void weighted_values(const SequenceUnit& u, int query, int d, const float* weights,
                     const float* totals) {
  const int64_t stride = score_stride(u);
  const float* w = weights + query * stride;
  // Every query adds its positions before those that all see, these, and those after them.
  const Range common = {visible(u, u.first + query + kQueries - 1).begin,
                        visible(u, u.first + query).end};
  F32x16 sums[kQueries][kVectors];
  for (int i = 0; i < kQueries; ++i) {
    F32x16 own[1][kVectors];
    for (int j = 0; j < kVectors; ++j) own[0][j] = F32x16::set(0);
    const Range seen = visible(u, u.first + query + i);
    const int end = common.begin < seen.end ? common.begin : seen.end;
    add_values<1, kVectors>(u, {seen.begin, end}, w + i * stride, u.v + d, own);
    for (int j = 0; j < kVectors; ++j) sums[i][j] = own[0][j];
  }
  add_values<kQueries, kVectors>(u, common, w, u.v + d, sums);
  for (int i = 0; i < kQueries; ++i) {
    F32x16 own[1][kVectors];
    for (int j = 0; j < kVectors; ++j) own[0][j] = sums[i][j];
    const Range seen = visible(u, u.first + query + i);
    const int begin = common.end > common.begin ? common.end : common.begin;
    add_values<1, kVectors>(u, {begin > seen.begin ? begin : seen.begin, seen.end}, w + i * stride,
                            u.v + d, own);
    const F32x16 total = F32x16::set(totals[query + i]);
    float* out = u.out + (query + i) * u.out_stride + d;
    for (int j = 0; j < kVectors; ++j) (own[0][j] / total).store(out + j * kLanes);
  }
}

template <int kVectors>
void add_all(const SequenceUnit& u, int d, const float* weights, const float* totals) {
  int query = 0;
  for (; query + kValueQueries <= u.n_queries; query += kValueQueries) {
    weighted_values<kValueQueries, kVectors>(u, query, d, weights, totals);
  }
  for (; query < u.n_queries; ++query) {
    weighted_values<1, kVectors>(u, query, d, weights, totals);
  }
}

}  // namespace

void attend_sequence(const SequenceUnit& u) {
  float* const scores = u.scratch;
  score_all(u, scores, scores + score_stride(u) * kMaxQueries);
  float totals[kMaxQueries];
  for (int i = 0; i < u.n_queries; ++i) {
    totals[i] = weigh(visible(u, u.first + i), scores + i * score_stride(u));
  }
  int d = 0;
  for (; d + kValueVectors * kLanes <= u.head_dim; d += kValueVectors * kLanes) {
    add_all<kValueVectors>(u, d, scores, totals);
  }
  for (; d < u.head_dim; d += kLanes) add_all<1>(u, d, scores, totals);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
