// Attention of chunk rows on tensor cores (docs/numerics.md, "attend, chunk rows on cards"). A
// block has 64 queries of one chunk that share a kv head, a warp 16 of them, and walks over the
// positions from 0 in tiles of 32: scores by f16 products with queries in two parts, weights in two
// parts times values. Queries do not meet, and tiles begin at multiples of 32, so that a query's
// result does not depend on which other queries are in the step.
//
// Work of a query and a position: 4 * head_dim multiply-adds on tensor cores. Bytes: the keys and
// values of all positions once for each 64 queries, most of them from the second-level cache.
#include "kernels/cuda/attend_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/half_mma.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kQueries = kChunkQueries;
inline constexpr int kThreads = kChunkThreads;
inline constexpr int kPositions = 32;  ///< of a tile
/// Halves from one row to the next in shared memory: rows of 16 bytes start in different banks.
inline constexpr int kPad = 8;
inline constexpr int kValueStride = kPositions + kPad;

template <int kDim>
struct ChunkShared {
  static constexpr int kStride = kDim + kPad;
  // Queries as the sum of two f16; in the end f32 results, kStride from one to the next.
  uint16_t high[kQueries * kStride];
  uint16_t low[kQueries * kStride];
  union Tile {
    uint16_t keys[kPositions * kStride];   ///< [position][element]
    uint16_t values[kDim * kValueStride];  ///< [element][position]
  } tile;
};

__device__ __forceinline__ uint32_t pack(float low, float high) {
  return round_f16(low) | static_cast<uint32_t>(round_f16(high)) << 16U;
}

/// What is left of x after its rounding to f16.
__device__ __forceinline__ float rest_of(float x) { return x - widen_f16(round_f16(x)); }

__device__ __forceinline__ uint32_t word(const uint16_t* p) {
  return *reinterpret_cast<const uint32_t*>(p);
}

/// One row of the tile of keys: element u * kElements .. of position p.
template <KvType kType, int kDim>
__device__ __forceinline__ void load_keys(const AttendArgs& args, int sequence, int kv_head,
                                          int first, int end, uint16_t* keys) {
  using Unit = KvUnit<kType>;
  constexpr int kStride = kDim + kPad;
  for (auto i = static_cast<int>(threadIdx.x); i < kPositions * kDim / Unit::kElements;
       i += kThreads) {
    const int p = i % kPositions;
    const int u = i / kPositions;
    float x[Unit::kElements] = {};
    if (first + p < end) {
      const int slot = (first + p) % kPage;
      const KvHead head =
          keys_of(args.kv, page_of(args.batch, args.kv, sequence, first + p), kv_head, kDim);
      Unit::decode(reinterpret_cast<const uint4*>(head.units)[u * kPage + slot], x);
      if (has_scales(kType)) {
        const float d = widen_f16(head.scales[u * Unit::kElements / 32 * kPage + slot]);
#pragma unroll
        for (int j = 0; j < Unit::kElements; ++j) x[j] = d * x[j];
      }
    }
    auto* to = reinterpret_cast<uint4*>(keys + p * kStride + u * Unit::kElements);
#pragma unroll
    for (int j = 0; j < Unit::kElements; j += 8) {
      to[j / 8] = make_uint4(pack(x[j], x[j + 1]), pack(x[j + 2], x[j + 3]),
                             pack(x[j + 4], x[j + 5]), pack(x[j + 6], x[j + 7]));
    }
  }
}

/// The tile of values; positions from `end` on are 0.
template <KvType kType, int kDim>
__device__ __forceinline__ void load_values(const AttendArgs& args, int sequence, int kv_head,
                                            int first, int end, uint16_t* values) {
  using Unit = KvUnit<kType>;
  constexpr int kGroup = Unit::kElements / 2;  // positions of a unit
  constexpr int kPairs = kDim / 2;
  for (auto i = static_cast<int>(threadIdx.x); i < kPairs * kPositions / kGroup; i += kThreads) {
    const int pair = i % kPairs;
    const int p0 = i / kPairs * kGroup;
    float x[Unit::kElements] = {};
    if (first + p0 < end) {
      const int slot = (first + p0) % kPage;
      const KvHead head = values_of(args.kv, page_of(args.batch, args.kv, sequence, first + p0),
                                    args.dims.n_kv_heads, kv_head, kDim);
      Unit::decode(reinterpret_cast<const uint4*>(head.units)[slot / kGroup * kPairs + pair], x);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const bool seen = first + p0 + j < end;
        if (has_scales(kType)) {
          const float d = widen_f16(head.scales[pair / 16 * kPage + slot + j]);
          x[2 * j] = d * x[2 * j];
          x[2 * j + 1] = d * x[2 * j + 1];
        }
        if (!seen) x[2 * j] = x[2 * j + 1] = 0;
      }
    }
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      auto* to = reinterpret_cast<uint32_t*>(values + (2 * pair + d) * kValueStride + p0);
#pragma unroll
      for (int j = 0; j < kGroup; j += 2) to[j / 2] = pack(x[2 * j + d], x[2 * j + 2 + d]);
    }
  }
}

template <int kDim>
__device__ __forceinline__ void load_keys_any(const AttendArgs& args, int sequence, int kv_head,
                                              int first, int end, uint16_t* keys) {
  switch (args.kv.k_type) {
    case KvType::kQ8_0:
      return load_keys<KvType::kQ8_0, kDim>(args, sequence, kv_head, first, end, keys);
    case KvType::kQ4_0:
      return load_keys<KvType::kQ4_0, kDim>(args, sequence, kv_head, first, end, keys);
    default:
      return load_keys<KvType::kF16, kDim>(args, sequence, kv_head, first, end, keys);
  }
}

template <int kDim>
__device__ __forceinline__ void load_values_any(const AttendArgs& args, int sequence, int kv_head,
                                                int first, int end, uint16_t* values) {
  switch (args.kv.v_type) {
    case KvType::kQ8_0:
      return load_values<KvType::kQ8_0, kDim>(args, sequence, kv_head, first, end, values);
    case KvType::kQ4_0:
      return load_values<KvType::kQ4_0, kDim>(args, sequence, kv_head, first, end, values);
    default:
      return load_values<KvType::kF16, kDim>(args, sequence, kv_head, first, end, values);
  }
}

/// A lane's share of 16 queries: those of index group and group + 8.
template <int kDim>
struct Running {
  float o[kDim / 8][4];  ///< weighted values; fragments of 8 elements
  float max[2];
  float sum[2];
};

/// Scores of the tile, fragments of 8 positions each.
using Scores = float[kPositions / 8][4];

template <int kDim>
__device__ __forceinline__ void score_tile(const ChunkShared<kDim>& shared, Scores& s) {
  constexpr int kStride = ChunkShared<kDim>::kStride;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int query = static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4;
  const int part = lane % 4 * 2;
  for (int k = 0; k < kDim; k += 16) {
    const int at = query * kStride + k + part;
    const uint32_t high[4] = {word(shared.high + at), word(shared.high + at + 8 * kStride),
                              word(shared.high + at + 8), word(shared.high + at + 8 * kStride + 8)};
    const uint32_t low[4] = {word(shared.low + at), word(shared.low + at + 8 * kStride),
                             word(shared.low + at + 8), word(shared.low + at + 8 * kStride + 8)};
#pragma unroll
    for (int t = 0; t < kPositions / 8; ++t) {
      const uint16_t* key = shared.tile.keys + (t * 8 + lane / 4) * kStride + k + part;
      const uint32_t b0 = word(key);
      const uint32_t b1 = word(key + 8);
      mma_f16(high, b0, b1, s[t]);
      mma_f16(low, b0, b1, s[t]);
    }
  }
}

/// Scores become weights; the running sums are scaled to the new maximum. `last` are the last
/// positions that the lane's two queries see.
template <int kDim>
__device__ __forceinline__ void weigh_tile(float scale, int first, const int (&last)[2], Scores& s,
                                           Running<kDim>& run) {
  const int part = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = run.max[half];
#pragma unroll
    for (int t = 0; t < kPositions / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& score = s[t][2 * half + j];
        score = score * scale;
        if (first + t * 8 + part + j <= last[half]) top = score > top ? score : top;
      }
    }
    for (int distance = 1; distance < 4; distance *= 2) {
      const float other = __shfl_xor_sync(kFullWarp, top, distance);
      top = other > top ? other : top;
    }
    const float keep = exp_f32(run.max[half] - top);
    float sum = run.sum[half] * keep;
#pragma unroll
    for (int t = 0; t < kPositions / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& w = s[t][2 * half + j];
        w = first + t * 8 + part + j <= last[half] ? exp_f32(w - top) : 0;
        sum = sum + w;
      }
    }
    run.max[half] = top;
    run.sum[half] = sum;
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
      run.o[t][2 * half] = run.o[t][2 * half] * keep;
      run.o[t][2 * half + 1] = run.o[t][2 * half + 1] * keep;
    }
  }
}

template <int kDim>
__device__ __forceinline__ void add_tile(const ChunkShared<kDim>& shared, const Scores& w,
                                         Running<kDim>& run) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int k = 0; k < kPositions / 16; ++k) {
    const float(&w0)[4] = w[2 * k];
    const float(&w1)[4] = w[2 * k + 1];
    const uint32_t high[4] = {pack(w0[0], w0[1]), pack(w0[2], w0[3]), pack(w1[0], w1[1]),
                              pack(w1[2], w1[3])};
    const uint32_t low[4] = {
        pack(rest_of(w0[0]), rest_of(w0[1])), pack(rest_of(w0[2]), rest_of(w0[3])),
        pack(rest_of(w1[0]), rest_of(w1[1])), pack(rest_of(w1[2]), rest_of(w1[3]))};
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
      const uint16_t* value =
          shared.tile.values + (t * 8 + lane / 4) * kValueStride + k * 16 + lane % 4 * 2;
      const uint32_t b0 = word(value);
      const uint32_t b1 = word(value + 8);
      mma_f16(high, b0, b1, run.o[t]);
      mma_f16(low, b0, b1, run.o[t]);
    }
  }
}

/// Query `index` of a chunk: rows one after the other, each with the heads of the kv head.
struct ChunkQuery {
  int row;
  int head;
};

__device__ __forceinline__ ChunkQuery chunk_query(const SliceArgs& slice, int group, int kv_head,
                                                  int index) {
  return {slice.row_begin + index / group, kv_head * group + index % group};
}

template <int kDim>
__device__ __forceinline__ void attend_chunk(const AttendArgs& args, ChunkShared<kDim>& shared) {
  constexpr int kStride = ChunkShared<kDim>::kStride;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int group = args.dims.n_heads / args.dims.n_kv_heads;
  const int tiles = (args.rows_per_slice * group + kQueries - 1) / kQueries;
  const SliceArgs slice = args.batch.slices[blockIdx.x / tiles];
  const int first_query = static_cast<int>(blockIdx.x) % tiles * kQueries;
  const int queries = min(kQueries, slice.row_count * group - first_query);
  if (slice.row_class != kChunkRows || queries <= 0) return;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const auto thread = static_cast<int>(threadIdx.x);

  for (int i = thread; i < kQueries * kDim; i += kThreads) {
    const int q = i / kDim;
    float x = 0;
    if (q < queries) {
      const ChunkQuery at = chunk_query(slice, group, kv_head, first_query + q);
      x = args.qg
              .data[at.row * args.qg.stride + static_cast<int64_t>(at.head) * 2 * kDim + i % kDim];
    }
    shared.high[q * kStride + i % kDim] = round_f16(x);
    shared.low[q * kStride + i % kDim] = round_f16(rest_of(x));
  }
  // Queries that are not there see what the last one sees.
  const int query = thread / kWarp * 16 + thread % kWarp / 4;
  int last[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int index = first_query + min(query + 8 * half, queries - 1);
    last[half] = args.batch.row_position[chunk_query(slice, group, kv_head, index).row];
  }
  const int end =
      args.batch.row_position[chunk_query(slice, group, kv_head, first_query + queries - 1).row] +
      1;

  Running<kDim> run = {};
  run.max[0] = run.max[1] = -INFINITY;
  for (int first = 0; first < end; first += kPositions) {
    __syncthreads();
    load_keys_any<kDim>(args, slice.sequence, kv_head, first, end, shared.tile.keys);
    __syncthreads();
    Scores s = {};
    score_tile(shared, s);
    weigh_tile(args.scale, first, last, s, run);
    __syncthreads();
    load_values_any<kDim>(args, slice.sequence, kv_head, first, end, shared.tile.values);
    __syncthreads();
    add_tile(shared, s, run);
  }
  // The queries have been read for the last time: results take their place.
  __syncthreads();
  auto* results = reinterpret_cast<float*>(shared.high);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = run.sum[half];
    for (int distance = 1; distance < 4; distance *= 2) {
      sum = sum + __shfl_xor_sync(kFullWarp, sum, distance);
    }
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        results[(query + 8 * half) * kStride + t * 8 + thread % 4 * 2 + j] =
            run.o[t][2 * half + j] / sum;
      }
    }
  }
  __syncthreads();
  if (has_scales(args.kv.v_type)) {
    rotate_heads(results, kQueries, kDim, kStride);
    __syncthreads();
  }
  for (int i = thread; i < queries * kDim; i += kThreads) {
    const ChunkQuery at = chunk_query(slice, group, kv_head, first_query + i / kDim);
    write_element(args, at.row, at.head, i % kDim, results[i / kDim * kStride + i % kDim]);
  }
}

}  // namespace

// Grid: [slices * tiles of kChunkQueries queries, kv heads]; a tile for each 64 of a slice's
// rows_per_slice * heads of a kv head. Dynamic shared memory: chunk_shared_bytes(head_dim).

CHIMERE_KERNEL(attend_chunk_32, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(ChunkShared<32>, shared);
  static_assert(sizeof *shared == chunk_shared_bytes(32));
  attend_chunk(args, *shared);
}

CHIMERE_KERNEL(attend_chunk_64, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(ChunkShared<64>, shared);
  static_assert(sizeof *shared == chunk_shared_bytes(64));
  attend_chunk(args, *shared);
}

CHIMERE_KERNEL(attend_chunk_128, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(ChunkShared<128>, shared);
  static_assert(sizeof *shared == chunk_shared_bytes(128));
  attend_chunk(args, *shared);
}

CHIMERE_KERNEL(attend_chunk_256, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(ChunkShared<256>, shared);
  static_assert(sizeof *shared == chunk_shared_bytes(256));
  attend_chunk(args, *shared);
}

}  // namespace chimere::kernels::cuda
