// Attention of single rows (docs/numerics.md, "attend"): the oracle's bits. A block has one split
// of one row and some of the heads that share a kv head, so that keys and values are decoded once
// for all of them.
//
// Scores: a thread has one position, and one chain for each head over the elements of the key.
// Values: a thread has two elements, and chains for up to 4 heads over the positions.
//
// Bytes: keys and values are read once for each tile of heads. With 8 heads, 256 elements, q8_0
// keys and q4_0 values, a position has 416 bytes and 4096 fused multiply-adds.
#include "kernels/cuda/attend_device.h"
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

/// The row that a block works on; position -1 if there is none.
struct Query {
  int row;
  int sequence;
  int position;
};

__device__ __forceinline__ Query query_of(const AttendArgs& args, int index) {
  const SliceArgs slice = args.batch.slices[index / args.rows_per_slice];
  const int i = index % args.rows_per_slice;
  if (slice.row_class != args.row_class || i >= slice.row_count) return {0, 0, -1};
  const int row = slice.row_begin + i;
  return {row, slice.sequence, args.batch.row_position[row]};
}

/// Shared by the threads of a block that attends for kHeads heads.
template <int kHeads>
struct alignas(16) AttendShared {
  float q[kHeads * kMaxHeadDim];   ///< [head][element]; in the end the result
  float scores[kHeads * kSplit];   ///< [head][position]
  float weights[kSplit * kHeads];  ///< [position][head]
  float max[kHeads];
  float sum[kHeads];
};

/// Scores of the positions of a split: a thread for each.
template <KvType kType, int kHeads>
__device__ __forceinline__ void score(const AttendArgs& args, const Query& query, int kv_head,
                                      int first, int count, AttendShared<kHeads>& shared) {
  using Unit = KvUnit<kType>;
  const int n = args.dims.head_dim;
  const auto p = static_cast<int>(threadIdx.x);
  if (p >= count) return;
  const KvHead keys =
      keys_of(args.kv, page_of(args.batch, args.kv, query.sequence, first + p), kv_head, n);
  const auto* units = reinterpret_cast<const uint4*>(keys.units) + p % kPage;
  float s[kHeads] = {};
  for (int u = 0; u * Unit::kElements < n; ++u) {
    float x[Unit::kElements];
    Unit::decode(units[u * kPage], x);
    if (has_scales(kType)) {
      const float d = widen_f16(keys.scales[u * Unit::kElements / 32 * kPage + p % kPage]);
#pragma unroll
      for (int i = 0; i < Unit::kElements; ++i) x[i] = d * x[i];
    }
#pragma unroll
    for (int i = 0; i < Unit::kElements; i += 4) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float4 q =
            *reinterpret_cast<const float4*>(shared.q + h * n + u * Unit::kElements + i);
        s[h] = fmaf(q.x, x[i], s[h]);
        s[h] = fmaf(q.y, x[i + 1], s[h]);
        s[h] = fmaf(q.z, x[i + 2], s[h]);
        s[h] = fmaf(q.w, x[i + 3], s[h]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) shared.scores[h * kSplit + p] = s[h] * args.scale;
}

/// Largest score, weights and their sum: a warp for each head.
template <int kHeads>
__device__ __forceinline__ void weigh(int count, AttendShared<kHeads>& shared) {
  const int h = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (h >= kHeads) return;
  const float* scores = shared.scores + h * kSplit;
  float s[kSplit / kWarp];
  float top = scores[0];
#pragma unroll
  for (int i = 0; i < kSplit / kWarp; ++i) {
    const int p = i * kWarp + lane;
    s[i] = p < count ? scores[p] : scores[0];
    top = s[i] > top ? s[i] : top;
  }
  for (int half = kWarp / 2; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, top, half);
    top = other > top ? other : top;
  }
  // Partial sum p mod 16 takes its weights in rising order: now one of this lane, now one of the
  // lane 16 further. Both lanes of such a pair keep the same sum.
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSplit / kWarp; ++i) {
    const int p = i * kWarp + lane;
    const float w = p < count ? exp_f32(s[i] - top) : 0;
    if (p < count) shared.weights[p * kHeads + h] = w;
    const float other = __shfl_xor_sync(kFullWarp, w, 16);
    sum = sum + (lane < 16 ? w : other);
    sum = sum + (lane < 16 ? other : w);
  }
  sum = tree_of_16(sum);
  if (lane == 0) {
    shared.max[h] = top;
    shared.sum[h] = sum;
  }
}

/// Heads whose values one thread adds up.
template <int kHeads>
inline constexpr int kValueHeads = kHeads < 4 ? kHeads : 4;

/// Two elements of the weighted sum of a split's values, for some heads.
template <int kHeads>
struct Values {
  float o[kValueHeads<kHeads>][2];
};

template <KvType kType, int kHeads>
__device__ __forceinline__ void add_values(const AttendArgs& args, const Query& query, int kv_head,
                                           int first, int count, int pair, int head,
                                           const AttendShared<kHeads>& shared,
                                           Values<kHeads>& values) {
  using Unit = KvUnit<kType>;
  constexpr int kGroup = Unit::kElements / 2;  // positions of a unit
  constexpr int kOwn = kValueHeads<kHeads>;
  const int n = args.dims.head_dim;
  KvHead head_values = {};
  for (int p0 = 0; p0 < count; p0 += kGroup) {
    if (p0 % kPage == 0) {
      head_values = values_of(args.kv, page_of(args.batch, args.kv, query.sequence, first + p0),
                              args.dims.n_kv_heads, kv_head, n);
    }
    const int slot = p0 % kPage;
    float x[Unit::kElements];
    Unit::decode(reinterpret_cast<const uint4*>(head_values.units)[slot / kGroup * (n / 2) + pair],
                 x);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      if (p0 + i >= count) break;
      float low = x[2 * i];
      float high = x[2 * i + 1];
      if (has_scales(kType)) {
        const float d = widen_f16(head_values.scales[pair / 16 * kPage + slot + i]);
        low = d * low;
        high = d * high;
      }
      const float* weights = shared.weights + (p0 + i) * kHeads + head;
#pragma unroll
      for (int h = 0; h < kOwn; ++h) {
        values.o[h][0] = fmaf(weights[h], low, values.o[h][0]);
        values.o[h][1] = fmaf(weights[h], high, values.o[h][1]);
      }
    }
  }
}

template <int kHeads>
__device__ __forceinline__ void score_any(const AttendArgs& args, const Query& query, int kv_head,
                                          int first, int count, AttendShared<kHeads>& shared) {
  switch (args.kv.k_type) {
    case KvType::kF32:
      return score<KvType::kF32>(args, query, kv_head, first, count, shared);
    case KvType::kF16:
      return score<KvType::kF16>(args, query, kv_head, first, count, shared);
    case KvType::kBF16:
      return score<KvType::kBF16>(args, query, kv_head, first, count, shared);
    case KvType::kQ8_0:
      return score<KvType::kQ8_0>(args, query, kv_head, first, count, shared);
    case KvType::kQ4_0:
      return score<KvType::kQ4_0>(args, query, kv_head, first, count, shared);
  }
}

template <int kHeads>
__device__ __forceinline__ Values<kHeads> add_values_any(const AttendArgs& args, const Query& query,
                                                         int kv_head, int first, int count,
                                                         int pair, int head,
                                                         const AttendShared<kHeads>& shared) {
  Values<kHeads> v = {};
  switch (args.kv.v_type) {
    case KvType::kF32:
      add_values<KvType::kF32>(args, query, kv_head, first, count, pair, head, shared, v);
      break;
    case KvType::kF16:
      add_values<KvType::kF16>(args, query, kv_head, first, count, pair, head, shared, v);
      break;
    case KvType::kBF16:
      add_values<KvType::kBF16>(args, query, kv_head, first, count, pair, head, shared, v);
      break;
    case KvType::kQ8_0:
      add_values<KvType::kQ8_0>(args, query, kv_head, first, count, pair, head, shared, v);
      break;
    case KvType::kQ4_0:
      add_values<KvType::kQ4_0>(args, query, kv_head, first, count, pair, head, shared, v);
      break;
  }
  return v;
}

/// How a running sum and the next split's are weighed against each other.
struct Fold {
  float max;
  float keep;
  float take;
};

__device__ __forceinline__ Fold fold_of(float max, float next) {
  const float top = next > max ? next : max;
  return {top, exp_f32(max - top), exp_f32(next - top)};
}

/// The results of heads first .. first + heads - 1 of a row: rotated back if values are, then
/// gated.
__device__ __forceinline__ void write_heads(const AttendArgs& args, int row, int first, int heads,
                                            float* o) {
  const int n = args.dims.head_dim;
  __syncthreads();
  if (has_scales(args.kv.v_type)) {
    rotate_heads(o, heads, n, n);
    __syncthreads();
  }
  for (auto i = static_cast<int>(threadIdx.x); i < heads * n; i += static_cast<int>(blockDim.x)) {
    write_element(args, row, first + i / n, i % n, o[i]);
  }
}

template <int kHeads>
__device__ __forceinline__ void attend(const AttendArgs& args, AttendShared<kHeads>& shared) {
  constexpr int kOwn = kValueHeads<kHeads>;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = args.dims.head_dim;
  const Query query = query_of(args, static_cast<int>(blockIdx.x));
  const int positions = query.position + 1;
  const bool folds = args.parts == nullptr;
  int split = folds ? 0 : static_cast<int>(blockIdx.z);
  if (split * kSplit >= positions) return;
  const int end = folds ? (positions + kSplit - 1) / kSplit : split + 1;
  const int group = args.dims.n_heads / args.dims.n_kv_heads;
  const int tiles = (group + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / tiles;
  const int tile = static_cast<int>(blockIdx.y) % tiles * kHeads;
  const int first_head = kv_head * group + tile;
  const int heads = min(kHeads, group - tile);

  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kHeads * n; i += kAttendThreads) {
    const int64_t h = first_head + i / n;
    shared.q[i] = i < heads * n ? args.qg.data[query.row * args.qg.stride + h * args.dims.query_stride() + i % n] : 0;
  }
  __syncthreads();
  const int pair = thread % (n / 2);
  const int head = thread / (n / 2) * kOwn;
  const bool adds = head < kHeads;
  Values<kHeads> all = {};
  float max[kOwn] = {};
  float sum[kOwn] = {};
  for (; split < end; ++split) {
    const int first = split * kSplit;
    const int count = min(kSplit, positions - first);
    score_any(args, query, kv_head, first, count, shared);
    __syncthreads();
    weigh(count, shared);
    __syncthreads();
    if (adds) {
      const Values<kHeads> next =
          add_values_any(args, query, kv_head, first, count, pair, head, shared);
#pragma unroll
      for (int h = 0; h < kOwn; ++h) {
        if (split == 0 || !folds) {
          max[h] = shared.max[head + h];
          sum[h] = shared.sum[head + h];
          all.o[h][0] = next.o[h][0];
          all.o[h][1] = next.o[h][1];
        } else {
          const Fold f = fold_of(max[h], shared.max[head + h]);
          max[h] = f.max;
          sum[h] = fmaf(shared.sum[head + h], f.take, sum[h] * f.keep);
          all.o[h][0] = fmaf(next.o[h][0], f.take, all.o[h][0] * f.keep);
          all.o[h][1] = fmaf(next.o[h][1], f.take, all.o[h][1] * f.keep);
        }
      }
    }
    __syncthreads();
  }
  if (folds) {
#pragma unroll
    for (int h = 0; h < kOwn; ++h) {
      if (!adds || head + h >= heads) break;
      shared.q[(head + h) * n + 2 * pair] = all.o[h][0] / sum[h];
      shared.q[(head + h) * n + 2 * pair + 1] = all.o[h][1] / sum[h];
    }
    write_heads(args, query.row, first_head, heads, shared.q);
    return;
  }
#pragma unroll
  for (int h = 0; h < kOwn; ++h) {
    if (!adds || head + h >= heads) break;
    const int64_t at =
        (static_cast<int64_t>(blockIdx.x) * args.dims.n_heads + first_head + head + h) *
            args.max_splits +
        static_cast<int>(blockIdx.z);
    float* part = args.parts + at * (n + 2);
    part[2 * pair] = all.o[h][0];
    part[2 * pair + 1] = all.o[h][1];
    if (pair == 0) {
      part[n] = max[h];
      part[n + 1] = sum[h];
    }
  }
}

}  // namespace

// Grid: [slices * rows_per_slice, kv heads * tiles of heads, splits or 1]. kAttendThreads threads.
// A tile's head_dim / 2 * heads / min(heads, 4) must not exceed the threads.

CHIMERE_KERNEL(attend_1, kAttendThreads, AttendArgs, args) {
  __shared__ AttendShared<1> shared;
  attend<1>(args, shared);
}

CHIMERE_KERNEL(attend_2, kAttendThreads, AttendArgs, args) {
  __shared__ AttendShared<2> shared;
  attend<2>(args, shared);
}

CHIMERE_KERNEL(attend_4, kAttendThreads, AttendArgs, args) {
  __shared__ AttendShared<4> shared;
  attend<4>(args, shared);
}

CHIMERE_KERNEL(attend_8, kAttendThreads, AttendArgs, args) {
  __shared__ AttendShared<8> shared;
  attend<8>(args, shared);
}

/// Folds the splits of a head in rising order. Grid: [slices * rows_per_slice, heads]. kFoldThreads
/// threads.
CHIMERE_KERNEL(attend_fold, kFoldThreads, AttendArgs, args) {
  __shared__ float o[kMaxHeadDim];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = args.dims.head_dim;
  const Query query = query_of(args, static_cast<int>(blockIdx.x));
  if (query.position < 0) return;
  const int splits = query.position / kSplit + 1;
  const auto head = static_cast<int>(blockIdx.y);
  const float* parts = args.parts + (static_cast<int64_t>(blockIdx.x) * args.dims.n_heads + head) *
                                        args.max_splits * (n + 2);
  for (auto d = static_cast<int>(threadIdx.x); d < n; d += kFoldThreads) {
    float max = parts[n];
    float sum = parts[n + 1];
    float value = parts[d];
#pragma unroll 4
    for (int split = 1; split < splits; ++split) {
      const float* part = parts + static_cast<int64_t>(split) * (n + 2);
      const Fold f = fold_of(max, part[n]);
      max = f.max;
      sum = fmaf(part[n + 1], f.take, sum * f.keep);
      value = fmaf(part[d], f.take, value * f.keep);
    }
    o[d] = value / sum;
  }
  write_heads(args, query.row, head, 1, o);
}

}  // namespace chimere::kernels::cuda
