// Attention of single rows with few blocks (docs/numerics.md, "attend"), with the bits of ref. A
// block handles one split of one row, for some of the heads that share a kv head. Nothing here is
// limited by throughput: what counts is the length of the chain of loads, sums and barriers.
//
// All keys and values of the split are copied to shared memory, in the layout of their pages. Those
// of earlier steps are copied while the previous kernel still runs; only those of this step, which
// it writes, and the queries are left. Meanwhile a dry run on whatever shared memory holds warms
// the instruction cache.
//
// Scores: a thread has one position, and a chain per head over the key's elements. Values: a thread
// has one pair of elements of one head at a time, and two chains over the positions. Results: a
// thread has one element at a time.
//
// With one head of 256 elements, q8_0 keys and q4_0 values, and 128 positions, a thread has chains
// of 256 and of 128 fused multiply-adds, of 4 cycles each, and about 850 and 1300 instructions.
// With the barriers, the exponential, 8 steps of the rotation, the gate and the rounding, an
// estimated 4500 cycles pass between the previous kernel's end and the results.
#include "kernels/cuda/attend_device.h"
#include "kernels/cuda/kv_pipeline.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"

namespace chimere::kernels::cuda {
namespace {

constexpr int kWarps = kAttendSplitThreads / kWarp;
static_assert(kAttendSplitThreads == kSplit, "one position per thread");
static_assert(kAttendSplitThreads >= kMaxHeadDim / 2, "one pair of elements per thread");

/// Shared memory of a block that attends for kHeads heads.
template <int kHeads>
struct SplitMemory {
  float* q;         ///< [head][query_stride()]: query, then its gate if there is one
  float* weights;   ///< [head][position]; -0 where the row does not see the position
  float* o;         ///< [2][head][element]: results, and what their rotation alternates with
  float* warp_max;  ///< [head][warp]
  float* sum;       ///< [head] sum of weights
  float* keep;      ///< [head] factor of the results, for sinks
  uint8_t* pages;   ///< for each page the keys, then the values of the kv head

  __device__ __forceinline__ SplitMemory(uint8_t* memory, const AttentionDims& dims) {
    q = reinterpret_cast<float*>(memory);
    weights = q + kHeads * 2 * dims.head_dim;
    o = weights + kHeads * kSplit;
    warp_max = o + 2 * kHeads * dims.head_dim;
    sum = warp_max + kHeads * kWarps;
    keep = sum + 4;
    pages = reinterpret_cast<uint8_t*>(keep + 4);
  }
};

/// What a block reads of the cache.
struct SplitRows {
  Span span;
  int kv_head;
  int key_bytes;    ///< of the head in a page
  int value_bytes;  ///< likewise
  int page;         ///< number of the split's page lane % 4

  __device__ __forceinline__ SplitRows(const AttendArgs& args, const Query& query, int split,
                                       int own_kv_head)
      : span(query, split),
        kv_head(own_kv_head),
        key_bytes(head_bytes(args.kv.k_type, args.dims.head_dim)),
        value_bytes(head_bytes(args.kv.v_type, args.dims.head_dim)) {
    const int begin = args.batch.page_begin[query.sequence] + span.first / kPage;
    const int own = static_cast<int>(threadIdx.x) % (kSplit / kPage);
    page = args.batch.page_table[begin + min(own, (span.count - 1) / kPage)];
  }
};

/// The first position that the step writes in the sequence of a row. `index` of query_of().
__device__ __forceinline__ int first_written(const AttendArgs& args, int index, int sequence) {
  const int slice = args.rows_per_slice > 1 ? index / args.rows_per_slice : index;
  const int first = args.batch.sequence_slices[sequence];
  // Nearly always the row's own slice, whose address is known earlier.
  const int position = args.batch.row_position[args.batch.slices[slice].row_begin];
  if (first == slice) return position;
  return args.batch.row_position[args.batch.slices[first].row_begin];
}

/// Starts copies of chunks first * width .. end * width - 1 of 16 bytes.
__device__ __forceinline__ void copy_chunks(uint8_t* to, const uint8_t* from, int first, int end,
                                            int width) {
#pragma unroll 1
  for (int c = first * width + static_cast<int>(threadIdx.x); c < end * width;
       c += kAttendSplitThreads) {
    copy_async<16>(to + c * 16, from + c * 16);
  }
}

/// Starts copies of the columns `first` .. `end` - 1 of `rows` rows of kColumns chunks.
template <int kColumns>
__device__ __forceinline__ void copy_columns(uint8_t* to, const uint8_t* from, int first, int end,
                                             int rows) {
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  if (column < first || column >= end) return;
  copy_chunks(to, from, 0, rows, kColumns);
}

/// Starts copies of the split's positions first .. end - 1. Units and scales that contain `first`
/// are copied, those that contain `end` only with `all`: calls for adjacent ranges share nothing.
__device__ __forceinline__ void copy_positions(const AttendArgs& args, const SplitRows& rows,
                                               int first, int end, bool all, uint8_t* to) {
  constexpr int kOfScales = 8;  // positions in a chunk of scales
  const int n = args.dims.head_dim;
  const KvType v = args.kv.v_type;
  const int group_log = v == KvType::kF32 ? 1 : v == KvType::kQ8_0 ? 3 : v == KvType::kQ4_0 ? 4 : 2;
  const int values_at = args.dims.n_kv_heads * rows.key_bytes + rows.kv_head * rows.value_bytes;
#pragma unroll 1
  for (int i = first / kPage; i * kPage < end; ++i) {
    const uint8_t* page = args.kv.base + __shfl_sync(kFullWarp, rows.page, i) * args.kv.page_bytes;
    uint8_t* own = to + i * (rows.key_bytes + rows.value_bytes);
    const int begin = max(first - i * kPage, 0);
    const int stop = min(end - i * kPage, kPage);
    const int scales_stop = (stop + (all ? kOfScales - 1 : 0)) / kOfScales;
    const uint8_t* from = page + rows.kv_head * rows.key_bytes;
    copy_columns<kPage>(own, from, begin, stop, n * element_bits(args.kv.k_type) / 128);
    if (has_scales(args.kv.k_type)) {
      const int at = element_bytes(args.kv.k_type, n);
      copy_columns<kPage / kOfScales>(own + at, from + at, begin / kOfScales, scales_stop, n / 32);
    }
    own += rows.key_bytes;
    from = page + values_at;
    copy_chunks(own, from, begin >> group_log,
                (stop + (all ? (1 << group_log) - 1 : 0)) >> group_log, n / 2);
    if (has_scales(v)) {
      const int at = element_bytes(v, n);
      copy_columns<kPage / kOfScales>(own + at, from + at, begin / kOfScales, scales_stop, n / 32);
    }
  }
}

template <int kHeads>
__device__ __forceinline__ void copy_queries(const AttendArgs& args, const Query& query,
                                             const HeadTile& heads,
                                             const SplitMemory<kHeads>& shared) {
  const auto chunks = static_cast<int>(args.dims.query_stride() / 4);
  const float* q = args.qg.data + query.row * args.qg.stride + heads.first * chunks * 4;
  copy_chunks(reinterpret_cast<uint8_t*>(shared.q), reinterpret_cast<const uint8_t*>(q), 0,
              heads.count, chunks);
}

/// Adds the products of a position's key and kHeads queries, `stride` apart. `elements`: a multiple
/// of 32.
template <KvType kType, int kHeads>
__device__ __forceinline__ void score(const uint8_t* page, int position, int n, int elements,
                                      const float* q, int stride, float (&s)[kHeads]) {
  using Unit = KvUnit<kType>;
  constexpr int kAtOnce = kType == KvType::kF32 ? 16 : 32;  // elements
  constexpr int kUnits = kAtOnce / Unit::kElements;
  const uint4* unit = reinterpret_cast<const uint4*>(page) + position;
  const uint16_t* scale =
      reinterpret_cast<const uint16_t*>(page + element_bytes(kType, n)) + position;
  // Units are loaded while earlier ones are added, as far as there are registers.
  constexpr bool kAhead = kUnits <= 2 && kHeads < 4;
  uint4 next[kUnits];
  uint16_t next_scale = 0;
  auto load = [&] {
#pragma unroll
    for (int r = 0; r < kUnits; ++r) next[r] = unit[r * kPage];
    if (has_scales(kType)) next_scale = *scale;
  };
  if (kAhead) load();
#pragma unroll 1
  for (int e = 0; e < elements; e += kAtOnce) {
    if (!kAhead) load();
    uint4 raw[kUnits];
#pragma unroll
    for (int r = 0; r < kUnits; ++r) raw[r] = next[r];
    const float d = widen_f16(next_scale);
    if (e + kAtOnce < elements) {
      unit += kUnits * kPage;
      scale += kPage;
    }
    if (kAhead) load();
#pragma unroll
    for (int c = 0; c < kAtOnce / 4; ++c) {
      constexpr int kOfUnit = Unit::kElements / 4;
      float x[4];
      Unit::decode(raw[c / kOfUnit], c % kOfUnit, d, d, x);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float4 y = *reinterpret_cast<const float4*>(q + h * stride + 4 * c);
        s[h] = fmaf(y.x, x[0], s[h]);
        s[h] = fmaf(y.y, x[1], s[h]);
        s[h] = fmaf(y.z, x[2], s[h]);
        s[h] = fmaf(y.w, x[3], s[h]);
      }
    }
    q += kAtOnce;
  }
}

/// A pair of elements of the values' weighted sum.
struct PairSum {
  float low;
  float high;
};

/// Of positions `hidden` .. `count` - 1. `pages`: the values of the first page, `page_bytes` from
/// one to the next.
template <KvType kType>
__device__ __forceinline__ PairSum weighted_sum(const uint8_t* pages, int page_bytes, int n,
                                                int pair, int hidden, int count,
                                                const float* weights) {
  using Unit = KvUnit<kType>;
  constexpr int kAtOnce = kType == KvType::kF32 ? 8 : 16;  // positions
  constexpr int kOfUnit = Unit::kElements / 2;             // positions
  constexpr int kUnits = kAtOnce / kOfUnit;
  constexpr int kOfPage = kPage / kAtOnce;
  const int half = n / 2;
  PairSum o = {};
#pragma unroll 1
  for (int g = hidden / kAtOnce; g * kAtOnce < count; ++g) {
    const uint8_t* page = pages + g / kOfPage * page_bytes;
    const uint4* unit = reinterpret_cast<const uint4*>(page) + g % kOfPage * kUnits * half + pair;
    uint4 raw[kUnits];
#pragma unroll
    for (int r = 0; r < kUnits; ++r) raw[r] = unit[r * half];
    uint4 scales[2] = {};
    if (has_scales(kType)) {
      const auto* from = reinterpret_cast<const uint4*>(page + element_bytes(kType, n)) +
                         pair / 16 * (kPage / 8) + g % kOfPage * 2;
      scales[0] = from[0];
      scales[1] = from[1];
    }
    float4 w[kAtOnce / 4];
#pragma unroll
    for (int i = 0; i < kAtOnce / 4; ++i) {
      w[i] = reinterpret_cast<const float4*>(weights + g * kAtOnce)[i];
    }
    // Positions that the row does not see may hold anything.
    const int before = max(hidden - g * kAtOnce, 0);
    const int seen = min(count - g * kAtOnce, kAtOnce);
    const uint32_t mask = (1U << seen) - (1U << before);
#pragma unroll
    for (int c = 0; c < kAtOnce / 2; ++c) {
      const uint32_t both = word_of(scales[c / 4], c % 4);
      float x[4];
      Unit::decode(raw[c / (kOfUnit / 2)], c % (kOfUnit / 2),
                   widen_f16(static_cast<uint16_t>(both)),
                   widen_f16(static_cast<uint16_t>(both >> 16U)), x);
      const float4& four = w[c / 2];
      if ((mask >> (2 * c) & 1U) != 0) {
        const float weight = c % 2 == 0 ? four.x : four.z;
        o = {fmaf(weight, x[0], o.low), fmaf(weight, x[1], o.high)};
      }
      if ((mask >> (2 * c + 1) & 1U) != 0) {
        const float weight = c % 2 == 0 ? four.y : four.w;
        o = {fmaf(weight, x[2], o.low), fmaf(weight, x[3], o.high)};
      }
    }
  }
  return o;
}

/// at / size, if it is less than kHeads.
template <int kHeads>
__device__ __forceinline__ int head_of(int at, int size) {
  int head = 0;
#pragma unroll
  for (int h = 1; h < kHeads; ++h) head += at >= h * size ? 1 : 0;
  return head;
}

/// 1.0F / sqrtf(x) of a power of two from 1 on.
__device__ __forceinline__ float inverse_root(int x) {
  const int log = __popc(static_cast<uint32_t>(x) - 1);
  const float power = __uint_as_float(static_cast<uint32_t>(127 - log / 2) << 23U);
  constexpr float kRootOfTwo = 0x1.6a09e6p+0F;
  return log % 2 == 0 ? power : power * (1.0F / kRootOfTwo);
}

/// Integers in the order of floats that are not NaN, and back.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ ((bits >> 31U) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

__device__ __forceinline__ float of_ordered(uint32_t x) {
  return __uint_as_float(x ^ ((x >> 31U) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

/// The largest score of a head. warp_max: of the head.
__device__ __forceinline__ float largest(const float* warp_max) {
  float top = warp_max[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) top = warp_max[w] > top ? warp_max[w] : top;
  return top;
}

/// Sums the weights of each head: chains in half a warp, then the tree of 16. Whole warps.
template <int kHeads>
__device__ __forceinline__ void sum_weights(const AttendArgs& args, const HeadTile& heads, int part,
                                            bool real, int chain,
                                            const SplitMemory<kHeads>& shared) {
  const int head = min(chain / 16, kHeads - 1);
  const float* weights = shared.weights + head * kSplit + chain % 16;
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kSplit; p += 16) sum = sum + weights[p];
#pragma unroll
  for (int half = 8; half > 0; half /= 2) sum = sum + __shfl_xor_sync(kFullWarp, sum, half);
  if (chain % 16 != 0) return;
  const float top = largest(shared.warp_max + head * kWarps);
  if (args.parts != nullptr) {
    if (real && head < heads.count) {
      *part_of(args, heads.first + head, part).max_and_sum = make_float2(top, sum);
    }
    return;
  }
  float keep = 1;
  if (args.sinks != nullptr) {
    const Fold f = fold_of(top, args.sinks[heads.first + min(head, heads.count - 1)]);
    keep = f.keep;
    sum = sum * f.keep + f.take;
  }
  shared.sum[head] = sum;
  shared.keep[head] = keep;
}

/// Divides the results by the sums, rotates them back, applies the gates, and writes them.
template <int kHeads>
__device__ __forceinline__ void write_results(const AttendArgs& args, int row,
                                              const HeadTile& heads, bool real,
                                              const SplitMemory<kHeads>& shared) {
  const int n = args.dims.head_dim;
  const int elements = heads.count * n;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const bool rotates = has_scales(args.kv.v_type);
  const int block = n & -n;
  float* now = shared.o;
  float* next = now + kHeads * n;
#pragma unroll 1
  for (int e = thread; e < elements; e += kAttendSplitThreads) {
    const int head = head_of<kHeads>(e, n);
    float v = now[e] * shared.keep[head] / shared.sum[head];
    if (rotates) {
#pragma unroll
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const float other = __shfl_xor_sync(kFullWarp, v, distance);
        v = (lane & distance) == 0 ? v + other : other - v;
      }
    }
    now[e] = v;
  }
  if (rotates) {
#pragma unroll 1
    for (int distance = kWarp; distance < block; distance *= 2) {
      __syncthreads();
#pragma unroll 1
      for (int e = thread; e < elements; e += kAttendSplitThreads) {
        const float own = now[e];
        const float other = now[e ^ distance];
        next[e] = (e & distance) == 0 ? own + other : other - own;
      }
      float* const last = now;
      now = next;
      next = last;
    }
  }
  const float scale = inverse_root(block);
#pragma unroll 1
  for (int e = thread; e < elements; e += kAttendSplitThreads) {
    float v = now[e];
    if (rotates) v = v * scale;
    if (args.dims.gated != 0) v = v * sigmoid(shared.q[e + (head_of<kHeads>(e, n) + 1) * n]);
    const int column = heads.first * n + e;
    if (real) args.out.data[row * args.out.stride + column] = v;
    if (args.rounded.q == nullptr) continue;
    RoundedLane rounded[1];
    round_lanes({v}, rounded);
    if (!real) continue;
    put_block_of_row(rounded[0], lane, row, column / kWarp, args.dims.n_heads * n / kWarp,
                     args.rounded);
  }
}

/// Computes what has been copied to shared memory. With `real` false, a dry run to warm the
/// instruction cache: parts of the work, on any data, without any effect outside the block.
template <int kHeads>
__device__ __forceinline__ void attend_copied(const AttendArgs& args, const Query& query,
                                              const HeadTile& heads, int part,
                                              const SplitRows& rows, bool real,
                                              const SplitMemory<kHeads>& shared) {
  const int n = args.dims.head_dim;
  const int page_bytes = rows.key_bytes + rows.value_bytes;
  const auto stride = static_cast<int>(args.dims.query_stride());
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int count = rows.span.count;
  const bool sees = thread >= rows.span.hidden && thread < count;
  float s[kHeads] = {};
  if (warp * kWarp < count) {
    for_type(args.kv.k_type, [&]<KvType kType>() {
      score<kType, kHeads>(shared.pages + thread / kPage * page_bytes, thread % kPage, n,
                           real ? n : 32, shared.q, stride, s);
    });
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    s[h] = s[h] * args.scale;
    const float own = sees && s[h] > -INFINITY ? s[h] : -INFINITY;
    const float top = of_ordered(__reduce_max_sync(kFullWarp, ordered(own)));
    if (thread % kWarp == 0) shared.warp_max[h * kWarps + warp] = top;
  }
  __syncthreads();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float top = largest(shared.warp_max + h * kWarps);
    // -0 leaves every sum unchanged.
    shared.weights[h * kSplit + thread] = sees ? exp_f32(s[h] - top) : -0.0F;
  }
  __syncthreads();
  // The last warps, which have no values if there is one head.
  constexpr int kSumming = (16 * kHeads + kWarp - 1) / kWarp;
  const int chain = thread - (kWarps - kSumming) * kWarp;
  if (chain >= 0) sum_weights(args, heads, part, real, chain, shared);
  const int half = n / 2;
#pragma unroll 1
  for (int job = thread; job < heads.count * half; job += kAttendSplitThreads) {
    const int h = head_of<kHeads>(job, half);
    const int pair = job - h * half;
    PairSum o = {};
    for_type(args.kv.v_type, [&]<KvType kType>() {
      o = weighted_sum<kType>(shared.pages + rows.key_bytes, page_bytes, n, pair, rows.span.hidden,
                              real ? count : min(rows.span.hidden + 1, count),
                              shared.weights + h * kSplit);
    });
    float* to = args.parts == nullptr ? shared.o + h * n : part_of(args, heads.first + h, part).o;
    if (real || args.parts == nullptr) {
      reinterpret_cast<float2*>(to)[pair] = make_float2(o.low, o.high);
    }
  }
  if (args.parts != nullptr) return;
  __syncthreads();
  write_results(args, query.row, heads, real, shared);
}

template <int kHeads>
__device__ __forceinline__ void attend_split(const AttendArgs& args, uint8_t* memory) {
  const auto index = static_cast<int>(blockIdx.x);
  const Query query = query_of(args, index);
  const auto part = static_cast<int>(blockIdx.z);
  const int split = query.first_split() + part;
  if (split * kSplit >= query.visible) {
    wait_for_previous_kernel();
    return;
  }
  const HeadTile heads = head_tile<kHeads>(args, static_cast<int>(blockIdx.y));
  const SplitRows rows(args, query, split, heads.kv_head);
  const SplitMemory<kHeads> shared(memory, args.dims);
  const int written = first_written(args, index, query.sequence) - rows.span.first;
  const int old = min(max(written, 0), rows.span.count);
  copy_positions(args, rows, 0, old, old == rows.span.count, shared.pages);
#pragma unroll 1
  for (int pass = args.warms_icache != 0 ? 0 : 1; pass < 2; ++pass) {
    if (pass == 1) {
      __syncthreads();
      wait_for_previous_kernel();
      let_next_kernel_start();
      copy_queries(args, query, heads, shared);
      copy_positions(args, rows, old, rows.span.count, true, shared.pages);
      wait_for_copies();
      __syncthreads();
    }
    attend_copied(args, query, heads, part, rows, pass == 1, shared);
  }
}

}  // namespace

// Grid: [slices * rows_per_slice, kv heads * tiles of heads, splits or 1]. kAttendSplitThreads
// threads and attend_split_shared_bytes(N, ...) of dynamic shared memory.

CHIMERE_KERNEL(attend_split_1, kAttendSplitThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend_split<1>(args, memory);
}

CHIMERE_KERNEL(attend_split_2, kAttendSplitThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend_split<2>(args, memory);
}

CHIMERE_KERNEL(attend_split_4, kAttendSplitThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  attend_split<4>(args, memory);
}

}  // namespace chimere::kernels::cuda
