// Attention of single rows (docs/numerics.md, "attend"), with the bits of ref; attend_split.cu is
// faster where latency matters: for few rows with few positions. A block handles one split of one
// row, or all splits in a loop, for some of the heads that share a kv head, so that keys and values
// are decoded once for all of them.
//
// Scores: each of the 128 threads has two positions, and for each a chain per head over the key's
// elements. Values: a thread has one or two pairs of elements, and for each two chains per head
// over the positions. Operands shared by several chains of a thread (a query by its positions, a
// weight by its elements) are read from shared memory once.
//
// Keys and values are copied asynchronously through one pipeline of stages, which continues from
// the keys into the values of a split. A thread copies exactly what it reads itself, so no block
// barrier is needed between a copy and its use.
//
// If all blocks are resident at once, they start while the previous kernel still runs, and warm the
// instruction cache with a dry run whose results are discarded. They also prefetch keys and values
// into L2 if there are few; many would evict what the previous kernel reads.
//
// With 8 heads of 256 elements and f16, a position takes 1024 bytes and 4096 fused multiply-adds,
// which read 1536 words of shared memory. For 256 positions on one multiprocessor: 8192 cycles of
// multiply-adds, 12288 of shared memory.
#include "kernels/cuda/attend_device.h"
#include "kernels/cuda/kv_pipeline.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"

namespace chimere::kernels::cuda {
namespace {

/// A thread's scores: for each head, those of its positions, kAttendThreads apart.
template <int kHeads>
using Scores = float[kHeads][kOwnPositions];

/// Scores of the first kActive positions of each thread, not yet scaled.
template <KvType kType, int kHeads, int kActive>
__device__ __forceinline__ void score(int n, int elements, const Shared<kHeads>& shared,
                                      KvPipeline& pipeline, Scores<kHeads>& s) {
  using Unit = KvUnit<kType>;
  constexpr int kRows = kStageUnits / kActive;
  // Unroll only as far as hiding the latency of the loads requires.
  constexpr bool kUnrolled = Unit::kElements * kActive * kHeads < 256;
  const auto thread = static_cast<int>(threadIdx.x);
  const int units = elements / Unit::kElements;
  auto add_unit = [&](const uint4* unit, int u) {
    uint4 raw[kActive];
    float d[kActive] = {};
#pragma unroll
    for (int i = 0; i < kActive; ++i) {
      raw[i] = unit[i * kAttendThreads];
      if (has_scales(kType)) {
        const int p = thread + i * kAttendThreads;
        const int block = u * Unit::kElements / 32;
        d[i] = widen_f16(shared.key_scales[(p / kPage * (n / 32) + block) * kPage + p % kPage]);
      }
    }
#pragma unroll
    for (int c = 0; c < Unit::kElements / 4; ++c) {
      float x[kActive][4];
#pragma unroll
      for (int i = 0; i < kActive; ++i) Unit::decode(raw[i], c, d[i], d[i], x[i]);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float4 q =
            *reinterpret_cast<const float4*>(shared.q + h * n + u * Unit::kElements + 4 * c);
#pragma unroll
        for (int i = 0; i < kActive; ++i) s[h][i] = fmaf(q.x, x[i][0], s[h][i]);
#pragma unroll
        for (int i = 0; i < kActive; ++i) s[h][i] = fmaf(q.y, x[i][1], s[h][i]);
#pragma unroll
        for (int i = 0; i < kActive; ++i) s[h][i] = fmaf(q.z, x[i][2], s[h][i]);
#pragma unroll
        for (int i = 0; i < kActive; ++i) s[h][i] = fmaf(q.w, x[i][3], s[h][i]);
      }
    }
  };
#pragma unroll 1
  for (int first = 0; first < units; first += kRows) {
    const uint4* stage = pipeline.take();
    if (kUnrolled && first + kRows <= units) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) add_unit(stage + r * kActive * kAttendThreads, first + r);
      continue;
    }
#pragma unroll 1
    for (int r = 0; r < min(kRows, units - first); ++r) {
      add_unit(stage + r * kActive * kAttendThreads, first + r);
    }
  }
}

template <KvType kType, int kHeads>
__device__ __forceinline__ void score_half_or_all(int n, int elements, const Shared<kHeads>& shared,
                                                  KvPipeline& pipeline, Scores<kHeads>& s) {
  if (pipeline.halved()) {
    score<kType, kHeads, kOwnPositions / 2>(n, elements, shared, pipeline, s);
  } else {
    score<kType, kHeads, kOwnPositions>(n, elements, shared, pipeline, s);
  }
}

/// Scores over the first `elements` elements of the keys.
template <int kHeads>
__device__ __forceinline__ void score_any(const AttendArgs& args, int elements,
                                          const Shared<kHeads>& shared, KvPipeline& pipeline,
                                          Scores<kHeads>& s) {
  for_type(args.kv.k_type, [&]<KvType kType>() {
    score_half_or_all<kType, kHeads>(args.dims.head_dim, elements, shared, pipeline, s);
  });
}

/// One number per head of a thread.
template <int kHeads>
using PerHead = float[kHeads];

/// The largest score of each head. Contains one block barrier.
template <int kHeads>
__device__ __forceinline__ void largest(int hidden, int count, const Shared<kHeads>& shared,
                                        const Scores<kHeads>& s, PerHead<kHeads>& top) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    top[h] = -INFINITY;
#pragma unroll
    for (int i = 0; i < kOwnPositions; ++i) {
      const int p = thread + i * kAttendThreads;
      if (p >= hidden && p < count) top[h] = s[h][i] > top[h] ? s[h][i] : top[h];
    }
  }
  // Butterfly reduction: lanes that differ in a bit divide their heads, until each has one.
#pragma unroll
  for (int level = 0; level < 5; ++level) {
    const int half = kWarp / 2 >> level;
    const int heads = kHeads / 2 >> level;
    if (half == 0) break;
    const bool upper = heads > 0 && (lane & half) != 0;
#pragma unroll
    for (int h = 0; h < (kHeads > 1 ? kHeads / 2 : 1); ++h) {
      if (h >= (heads > 0 ? heads : 1)) break;
      const float own = upper ? top[h + heads] : top[h];
      const float given = upper ? top[h] : top[h + heads];
      const float other = __shfl_xor_sync(kFullWarp, given, half);
      top[h] = other > own ? other : own;
    }
  }
  constexpr int kLanesOfHead = kWarp / kHeads;
  if (lane % kLanesOfHead == 0) {
    shared.warp_max[thread / kWarp * kHeads + lane / kLanesOfHead] = top[0];
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float* max = shared.warp_max + h;
    top[h] = max[0];
#pragma unroll
    for (int w = 1; w < kAttendThreads / kWarp; ++w) {
      top[h] = max[w * kHeads] > top[h] ? max[w * kHeads] : top[h];
    }
  }
}

/// Weights of the positions and their partial sums. Contains one block barrier; another one must
/// precede reads of the partial sums.
template <int kHeads>
__device__ __forceinline__ void weigh(int hidden, int count, const Scores<kHeads>& s,
                                      const PerHead<kHeads>& top, const Shared<kHeads>& shared) {
#pragma unroll
  for (int i = 0; i < kOwnPositions; ++i) {
    const int p = static_cast<int>(threadIdx.x) + i * kAttendThreads;
    // -0 beyond the last position and before the first leaves every sum unchanged.
    PerHead<kHeads> w;
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
      w[h] = p >= hidden && p < count ? exp_f32(s[h][i] - top[h]) : -0.0F;
    float* to = shared.weights + p * kHeads;
    if constexpr (kHeads == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(w[0], w[1], w[2], w[3]);
    } else {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) to[h] = w[h];
    }
  }
  __syncthreads();
  for (auto chain = static_cast<int>(threadIdx.x); chain < 16 * kHeads; chain += kAttendThreads) {
    float sum = 0;
#pragma unroll 4
    for (int p = 0; p < count; p += 16) sum = sum + shared.weights[p * kHeads + chain];
    shared.partial[chain] = sum;
  }
}

/// The sum of a head's weights, by the tree of 16.
template <int kHeads>
__device__ __forceinline__ float sum_of(int head, const Shared<kHeads>& shared) {
  float s[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = shared.partial[i * kHeads + head];
#pragma unroll
  for (int level = 3; level >= 0; --level) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < 1 << level) s[i] = s[i] + s[i + (1 << level)];
    }
  }
  return s[0];
}

/// Weighted sums of kPairs pairs of elements of a split's values, for each head of a thread.
template <int kHeads, int kPairs>
using Sums = float[kHeads][kPairs][2];

/// Adds positions p and p + 1. `weights`: those of p, from the thread's first head on. `x`: for
/// each pair, its elements at p, then at p + 1.
template <int kHeads, int kPairs>
__device__ __forceinline__ void add_two(const float* weights, const float (&x)[kPairs][4],
                                        Sums<kHeads, kPairs>& o) {
  float w[2 * kHeads];
  if constexpr (kHeads == 1) {
    const float2 both = *reinterpret_cast<const float2*>(weights);
    w[0] = both.x;
    w[1] = both.y;
  } else {
#pragma unroll
    for (int i = 0; i < kHeads / 2; ++i) {
      // With 2 heads, four weights cover both positions; with more, one position.
      const float4 four = *reinterpret_cast<const float4*>(weights + i * kHeads);
      w[4 * i] = four.x;
      w[4 * i + 1] = four.y;
      w[4 * i + 2] = four.z;
      w[4 * i + 3] = four.w;
    }
  }
#pragma unroll
  for (int t = 0; t < 2; ++t) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        o[h][j][0] = fmaf(w[t * kHeads + h], x[j][2 * t], o[h][j][0]);
        o[h][j][1] = fmaf(w[t * kHeads + h], x[j][2 * t + 1], o[h][j][1]);
      }
    }
  }
}

template <KvType kType, int kHeads, int kPairs>
__device__ __forceinline__ void add_values(int n, int hidden, int count,
                                           const Shared<kHeads>& shared, KvPipeline& pipeline,
                                           Sums<kHeads, kPairs>& o) {
  using Unit = KvUnit<kType>;
  constexpr int kGroup = Unit::kElements / 2;  // positions per unit
  constexpr int kGroups =
      kStageUnits / kPairs * kGroup > kPage ? kPage / kGroup : kStageUnits / kPairs;
  constexpr bool kUnrolled = kGroup * kPairs * kHeads < 64;
  const float* weights = shared.weights;
  const uint16_t* scales[kPairs];
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int pair = min(static_cast<int>(threadIdx.x) + j * kAttendThreads, n / 2 - 1);
    scales[j] = shared.value_scales + pair / 16 * kPage;
  }
  auto decode = [&](const uint4(&raw)[kPairs], int p, int c, float(&x)[kPairs][4]) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      float d[2] = {};
      if (has_scales(kType)) {
        const uint32_t both = *reinterpret_cast<const uint32_t*>(
            scales[j] + p / kPage * (n / 32) * kPage + p % kPage + 2 * c);
        d[0] = widen_f16(static_cast<uint16_t>(both));
        d[1] = widen_f16(static_cast<uint16_t>(both >> 16U));
      }
      Unit::decode(raw[j], c, d[0], d[1], x[j]);
    }
  };
  auto load = [&](const uint4* stage, int g, uint4(&raw)[kPairs]) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) raw[j] = stage[(g * kPairs + j) * kAttendThreads];
  };
  auto add_group = [&](const uint4* stage, int g, int p) {
    uint4 raw[kPairs];
    load(stage, g, raw);
#pragma unroll
    for (int c = 0; c < kGroup / 2; ++c) {
      float x[kPairs][4];
      decode(raw, p, c, x);
      add_two<kHeads, kPairs>(weights + (p + 2 * c) * kHeads, x, o);
    }
  };
#pragma unroll 1
  for (int first = 0; first < count; first += kGroups * kGroup) {
    const uint4* stage = pipeline.take();
    const int end = min(first + kGroups * kGroup, count);
    if (kUnrolled && hidden <= first && end == first + kGroups * kGroup) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) add_group(stage, g, first + g * kGroup);
      continue;
    }
    int p = max(first, hidden / 2 * 2);
    if (!kUnrolled && p == first) {
#pragma unroll 1
      for (; p + kGroup <= end; p += kGroup) add_group(stage, (p - first) / kGroup, p);
    }
#pragma unroll 1
    for (; p < end; p += 2) {
      uint4 raw[kPairs];
      load(stage, (p - first) / kGroup, raw);
      const int c = p % kGroup / 2;
      float x[kPairs][4];
      decode(raw, p - 2 * c, c, x);
      // Missing positions and hidden ones count as -0 * 0.
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (p < hidden) x[j][0] = x[j][1] = 0;
        if (p + 1 == count) x[j][2] = x[j][3] = 0;
      }
      add_two<kHeads, kPairs>(weights + p * kHeads, x, o);
    }
  }
}

/// Writes the weighted values of the row's split number `part` to args.parts, or folds them into
/// shared.o.
template <KvType kType, int kHeads, int kPairs>
__device__ __forceinline__ void put_values(const AttendArgs& args, const HeadTile& heads, int part,
                                           int hidden, int count, bool real,
                                           const PerHead<kHeads>& top, const PerHead<kHeads>& max,
                                           const Shared<kHeads>& shared, KvPipeline& pipeline) {
  const int n = args.dims.head_dim;
  Sums<kHeads, kPairs> o = {};
  add_values<kType, kHeads, kPairs>(n, hidden, count, shared, pipeline, o);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= heads.count) break;
    float* to = args.parts != nullptr ? part_of(args, heads.first + h, part).o : shared.o + h * n;
    const bool adds = args.parts == nullptr && part > 0;
    const Fold f = adds ? fold_of(max[h], top[h]) : Fold{};
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int pair = static_cast<int>(threadIdx.x) + j * kAttendThreads;
      if (pair >= n / 2) break;
      float2* both = reinterpret_cast<float2*>(to) + pair;
      if (adds) {
        o[h][j][0] = fmaf(o[h][j][0], f.take, both->x * f.keep);
        o[h][j][1] = fmaf(o[h][j][1], f.take, both->y * f.keep);
      }
      if (real || args.parts == nullptr) *both = make_float2(o[h][j][0], o[h][j][1]);
    }
  }
}

/// Writes the results of heads first .. first + heads - 1 of a row, also rounded if args.rounded
/// has memory: first the inverse rotation if values are rotated, then the gate.
__device__ __forceinline__ void write_heads(const AttendArgs& args, int row, int first, int heads,
                                            bool real, float* o) {
  const int n = args.dims.head_dim;
  __syncthreads();
  if (has_scales(args.kv.v_type)) {
    rotate_heads(o, heads, n);
    __syncthreads();
  }
  for (int h = 0; h < heads; ++h) {
    for (auto i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
      const float v = write_element(args, row, first + h, i, real, o[h * n + i]);
      if (args.rounded.q == nullptr) continue;
      RoundedLane rounded[1];
      round_lanes({v}, rounded);
      if (!real) continue;
      put_block_of_row(rounded[0], i % kWarp, row, ((first + h) * n + i) / kWarp,
                       args.dims.n_heads * n / kWarp, args.rounded);
    }
  }
}

/// Computes one row, or this block's split of it. With `real` false, a dry run to warm the
/// instruction cache: parts of the work, without any effect outside the block.
template <int kHeads>
__device__ __forceinline__ void attend_row(const AttendArgs& args, const Query& query,
                                           const HeadTile& heads, int split, bool real,
                                           const Shared<kHeads>& shared) {
  const int n = args.dims.head_dim;
  const bool folds = args.parts == nullptr;
  const int first_split = query.first_split();
  const int end = folds && real ? first_split + query.splits() : split + 1;
  const auto thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float* q = args.qg.data + query.row * args.qg.stride +
                     (heads.first + min(h, heads.count - 1)) * args.dims.query_stride();
    for (int i = thread; i < n; i += kAttendThreads) {
      copy_async<4>(reinterpret_cast<uint8_t*>(shared.q + h * n + i),
                    reinterpret_cast<const uint8_t*>(q + i));
    }
  }
  static_assert(kMaxHeadDim <= 4 * kAttendThreads);
  const int pairs_log = n <= 2 * kAttendThreads ? 0 : 1;
  // Over the splits so far.
  PerHead<kHeads> max = {};
  PerHead<kHeads> sum = {};
  for (; split < end; ++split) {
    const Span span(query, split);
    const int hidden = span.hidden;
    const int count = span.count;
    const int part = split - first_split;
    KvPipeline pipeline;
    pipeline.begin(args, query, heads.kv_head, span.first, count, pairs_log, real, shared);
    pipeline.wait();
    __syncthreads();
    Scores<kHeads> s = {};
    score_any(args, real ? n : min(n, 32), shared, pipeline, s);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int i = 0; i < kOwnPositions; ++i) s[h][i] = s[h][i] * args.scale;
    }
    PerHead<kHeads> top;
    largest(hidden, count, shared, s, top);
    weigh(hidden, count, s, top, shared);
    // The dry run covers one whole stage and the remainder after the last whole one.
    const int stage = pipeline.stage_positions();
    const int added = real || count < 2 * stage ? count : stage + count % stage;
    for_type(args.kv.v_type, [&]<KvType kType>() {
      if (pairs_log == 0) {
        put_values<kType, kHeads, 1>(args, heads, part, hidden, added, real, top, max, shared,
                                     pipeline);
      } else {
        put_values<kType, kHeads, 2>(args, heads, part, hidden, added, real, top, max, shared,
                                     pipeline);
      }
    });
    __syncthreads();
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const Fold f = part > 0 && folds ? fold_of(max[h], top[h]) : Fold{top[h], 0, 0};
      max[h] = f.max;
      if (thread != h) continue;
      const float next = sum_of(h, shared);
      sum[h] = part > 0 && folds ? fmaf(next, f.take, sum[h] * f.keep) : next;
      if (folds) {
        shared.sum[h] = sum[h];
      } else if (real && h < heads.count) {
        *part_of(args, heads.first + h, part).max_and_sum = make_float2(top[h], next);
      }
    }
  }
  if (!folds) return;
  PerHead<kHeads> keep;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    keep[h] = 1;
    if (args.sinks == nullptr) continue;
    const Fold f = fold_of(max[h], args.sinks[heads.first + min(h, heads.count - 1)]);
    keep[h] = f.keep;
    if (thread == h) shared.sum[h] = sum[h] * f.keep + f.take;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= heads.count) break;
    for (int i = thread; i < n; i += kAttendThreads) {
      shared.o[h * n + i] = shared.o[h * n + i] * keep[h] / shared.sum[h];
    }
  }
  write_heads(args, query.row, heads.first, heads.count, real, shared.o);
}

/// Folds the splits of a head. All threads of the block, 4 elements each; the arrays are shared.
__device__ __forceinline__ void fold_head(const AttendArgs& args, int row, int head, int splits,
                                          bool real, float4* o, float4* folds, float* warp_max) {
  constexpr int kAtOnce = 16;  // partial results loaded while as many are folded
  const int n = args.dims.head_dim;
  const auto thread = static_cast<int>(threadIdx.x);
  const Part first = part_of(args, head, 0);
  const bool adds = thread < n / 4;
  auto load = [&](int split, float4(&parts)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!adds || split + i >= splits) break;
      parts[i] = reinterpret_cast<const float4*>(first.o)[(split + i) * (n / 4) + thread];
    }
  };
  float4 next[kAtOnce] = {};
  load(0, next);
  float4 value = {};
  float sum = 0;
  float max = -INFINITY;  // over the previous splits
  for (int begin = 0; begin < splits; begin += kFoldThreads) {
    // Each split's largest score, and the running maximum.
    const int own = begin + thread;
    const float2 part = own < splits ? first.max_and_sum[own] : make_float2(-INFINITY, 0);
    float top = part.x;
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const float other = __shfl_up_sync(kFullWarp, top, distance);
      if (thread % kWarp >= distance) top = other > top ? other : top;
    }
    if (thread % kWarp == kWarp - 1) warp_max[thread / kWarp] = top;
    float before = __shfl_up_sync(kFullWarp, top, 1);
    if (thread % kWarp == 0) before = -INFINITY;
    __syncthreads();
    for (int w = 0; w < thread / kWarp; ++w) max = warp_max[w] > max ? warp_max[w] : max;
    before = max > before ? max : before;
    const Fold f = fold_of(before, part.x);
    folds[thread] = make_float4(f.keep, f.take, part.y, 0);
    for (int w = thread / kWarp; w < kFoldThreads / kWarp; ++w) {
      max = warp_max[w] > max ? warp_max[w] : max;
    }
    __syncthreads();
    const int end = min(begin + kFoldThreads, splits);
    for (int split = begin; split < end; split += kAtOnce) {
      float4 parts[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) parts[i] = next[i];
      load(split + kAtOnce, next);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (split + i >= end) break;
        const float4 fold = folds[split + i - begin];
        if (split + i == 0) {
          value = parts[0];
          sum = fold.z;
        } else {
          sum = fmaf(fold.z, fold.y, sum * fold.x);
          value.x = fmaf(parts[i].x, fold.y, value.x * fold.x);
          value.y = fmaf(parts[i].y, fold.y, value.y * fold.x);
          value.z = fmaf(parts[i].z, fold.y, value.z * fold.x);
          value.w = fmaf(parts[i].w, fold.y, value.w * fold.x);
        }
      }
      if (!real) break;
    }
    __syncthreads();
    if (!real) break;
  }
  if (args.sinks != nullptr) {
    const Fold f = fold_of(max, args.sinks[head]);
    value = make_float4(value.x * f.keep, value.y * f.keep, value.z * f.keep, value.w * f.keep);
    sum = sum * f.keep + f.take;
  }
  if (adds) o[thread] = make_float4(value.x / sum, value.y / sum, value.z / sum, value.w / sum);
  write_heads(args, row, head, 1, real, reinterpret_cast<float*>(o));
}

template <int kHeads>
__device__ __forceinline__ void attend(const AttendArgs& args, uint8_t* memory) {
  const HeadTile heads = head_tile<kHeads>(args, static_cast<int>(blockIdx.y));
  const Query query = query_of(args, static_cast<int>(blockIdx.x));
  const int split =
      query.first_split() + (args.parts == nullptr ? 0 : static_cast<int>(blockIdx.z));
  if (split * kSplit >= query.visible) {
    wait_for_previous_kernel();
    return;
  }
  const Shared<kHeads> shared(memory, args.dims.head_dim);
  if (args.prefetches != 0) {
    const Span span(query, split);
    prefetch_split(args, query, heads.kv_head, span.first, span.count, heads.tile, args.tiles);
  }
  // A dry run may read memory that the previous kernel still writes; its results are discarded.
#pragma unroll 1
  for (int pass = args.warms_icache != 0 ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1) {
      wait_for_copies();
      __syncthreads();
      wait_for_previous_kernel();
      let_next_kernel_start();
    }
    attend_row(args, query, heads, split, pass == 1, shared);
  }
}

}  // namespace

// Grid: [slices * rows_per_slice, kv heads * tiles of heads, splits or 1]. kAttendThreads threads
// and attend_shared_bytes(N, ...) of dynamic shared memory.

CHIMERE_KERNEL(attend_1, kAttendThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend<1>(args, memory);
}

CHIMERE_KERNEL(attend_2, kAttendThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend<2>(args, memory);
}

CHIMERE_KERNEL(attend_4, kAttendThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend<4>(args, memory);
}

/// Folds the splits of a head in rising order. Grid: [slices * rows_per_slice, heads]. kFoldThreads
/// threads, 4 elements each.
CHIMERE_KERNEL(attend_fold, kFoldThreads, AttendArgs, args) {
  __shared__ float4 o[kMaxHeadDim / 4];
  __shared__ float4 folds[kFoldThreads];  // factors of old and new, sum of weights
  __shared__ float warp_max[kFoldThreads / kWarp];
  const Query query = query_of(args, static_cast<int>(blockIdx.x));
  if (query.visible == 0) {
    wait_for_previous_kernel();
    return;
  }
  const int splits = query.splits();
#pragma unroll 1
  for (int pass = args.warms_icache != 0 ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1) {
      __syncthreads();
      wait_for_previous_kernel();
      let_next_kernel_start();
    }
    fold_head(args, query.row, static_cast<int>(blockIdx.y), splits, pass == 1, o, folds, warp_max);
  }
}

}  // namespace chimere::kernels::cuda
