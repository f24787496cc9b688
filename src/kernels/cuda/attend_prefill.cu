// Attention of prefill rows on tensor cores (docs/numerics.md, "attend, prefill rows on GPUs"). A
// block handles 128 queries of one slice that share a kv head, 16 per warp in registers, and
// iterates over the positions from 0, or from its first window, in tiles of 32. Queries are
// independent and tiles begin at multiples of 32, so a query's result does not depend on the other
// queries of the step.
//
// Work per query and position: 2 * head_dim multiply-adds on tensor cores. Bytes: all keys and
// values once per 128 queries, most of them from L2. They are converted to f16 in one of two
// shared-memory buffers while the other is multiplied; their raw data is loaded one tile earlier.
#include "kernels/cuda/attend_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/exp2.h"
#include "kernels/cuda/ptx/half_mma.h"
#include "kernels/cuda/ptx/half_pair.h"
#include "kernels/cuda/ptx/matrix_load.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kQueries = kPrefillQueries;
inline constexpr int kThreads = kPrefillThreads;
inline constexpr int kPositions = 32;  ///< per tile

/// A tile of keys and values, f16. The 16-byte units are permuted so that those written or read
/// together lie in different banks.
template <int kDim>
struct Tile {
  uint16_t keys[kPositions * kDim];    ///< [position][element]
  uint16_t values[kDim * kPositions];  ///< [element][position]
};

/// Unit `unit` of a position's keys.
template <int kDim>
__device__ __forceinline__ uint4* key_unit(Tile<kDim>& tile, int position, int unit) {
  constexpr int kOrders = kDim / 8 < 8 ? kDim / 8 : 8;
  return reinterpret_cast<uint4*>(tile.keys + position * kDim) + (unit ^ (position % kOrders));
}

/// Unit `unit` of an element's values, which covers 8 positions.
template <int kDim>
__device__ __forceinline__ uint4* value_unit(Tile<kDim>& tile, int element, int unit) {
  const int half = (element & 1) ^ ((element >> 3) & 1);
  return reinterpret_cast<uint4*>(tile.values) + element / 2 * 8 + half * 4 +
         (unit ^ ((element >> 1) & 3));
}

/// Where a tile's keys and values are stored.
struct TilePlace {
  const AttendArgs& args;
  int sequence;
  int kv_head;
  int first;  ///< first position
  int begin;  ///< first position that the block sees
  int end;    ///< end of the positions that the block sees

  __device__ __forceinline__ uint8_t* page() const {
    return page_of(args.batch, args.kv, sequence, first);
  }
};

/// Raw data of the next tile in a thread's registers; unused for f16.
struct RawKeys {
  uint4 units[2];
  uint32_t scales[2];
};
struct RawValues {
  uint4 units[2];
  uint4 scales[2];
};

/// Calls f(i, unit) for this thread's units of a tile of kUnits units.
template <int kUnits, class F>
__device__ __forceinline__ void for_units(F f) {
#pragma unroll
  for (int i = 0; i < (kUnits + kThreads - 1) / kThreads; ++i) {
    const int unit = static_cast<int>(threadIdx.x) + i * kThreads;
    if (kUnits % kThreads == 0 || unit < kUnits) f(i, unit);
  }
}

template <int kDim>
__device__ __forceinline__ void fetch_keys(const TilePlace& at, RawKeys& raw) {
  const KvType type = at.args.kv.k_type;
  if (type == KvType::kF16) return;
  const KvHead head = keys_of(at.args.kv, at.page(), at.kv_head, kDim);
  const int slot = at.first % kPage;
  const auto* units = reinterpret_cast<const uint4*>(head.units);
  auto fetch = [&]<int kElements>() {
    for_units<kPositions * kDim / kElements>([&](int i, int unit) {
      const int p = slot + unit % kPositions;
      const int u = unit / kPositions;
      raw.units[i] = units[u * kPage + p];
      raw.scales[i] = head.scales[u * kElements / 32 * kPage + p];
    });
  };
  if (type == KvType::kQ8_0) {
    fetch.template operator()<16>();
  } else {
    fetch.template operator()<32>();
  }
}

template <int kDim>
__device__ __forceinline__ void fetch_values(const TilePlace& at, RawValues& raw) {
  const KvType type = at.args.kv.v_type;
  if (type == KvType::kF16) return;
  constexpr int kPairs = kDim / 2;
  const KvHead head = values_of(at.args.kv, at.page(), at.args.dims.n_kv_heads, at.kv_head, kDim);
  const int slot = at.first % kPage;
  const auto* units = reinterpret_cast<const uint4*>(head.units);
  auto fetch = [&]<int kGroup>() {
    for_units<kPairs * kPositions / kGroup>([&](int i, int unit) {
      const int pair = unit % kPairs;
      const int p = slot + unit / kPairs * kGroup;
      raw.units[i] = units[p / kGroup * kPairs + pair];
      const auto* scales = reinterpret_cast<const uint4*>(head.scales + pair / 16 * kPage + p);
#pragma unroll
      for (int j = 0; j < kGroup / 8; ++j) raw.scales[i + j] = scales[j];
    });
  };
  if (type == KvType::kQ8_0) {
    fetch.template operator()<8>();
  } else {
    fetch.template operator()<16>();
  }
}

/// Converts bytes 0 and 1, or those that the selector names, from unsigned integers to f16,
/// subtracts kBias, and multiplies by the pair d.
template <uint32_t kBias>
__device__ __forceinline__ uint32_t scaled_pair(uint32_t bytes, uint32_t selector, uint32_t d) {
  constexpr uint32_t kLess = (0x6400U + kBias) * 0x10001U;
  const uint32_t integers = half_pair_less(__byte_perm(bytes, 0x64646464U, selector), kLess);
  return half_pair_fma(integers, d, 0);
}

template <int kDim>
__device__ __forceinline__ void put_keys(const TilePlace& at, const RawKeys& raw,
                                         Tile<kDim>& tile) {
  switch (at.args.kv.k_type) {
    case KvType::kQ8_0:
      for_units<kPositions * kDim / 16>([&](int i, int unit) {
        const uint32_t d = raw.scales[i] * 0x10001U;
        const uint32_t words[4] = {raw.units[i].x, raw.units[i].y, raw.units[i].z, raw.units[i].w};
        uint32_t out[8];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const uint32_t biased = words[w] ^ 0x80808080U;
          out[2 * w] = scaled_pair<128>(biased, 0x4140U, d);
          out[2 * w + 1] = scaled_pair<128>(biased, 0x4342U, d);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          *key_unit(tile, unit % kPositions, unit / kPositions * 2 + j) =
              make_uint4(out[4 * j], out[4 * j + 1], out[4 * j + 2], out[4 * j + 3]);
        }
      });
      return;
    case KvType::kQ4_0:
      for_units<kPositions * kDim / 32>([&](int i, int unit) {
        const uint32_t d = raw.scales[i] * 0x10001U;
        const uint32_t words[4] = {raw.units[i].x, raw.units[i].y, raw.units[i].z, raw.units[i].w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const uint32_t even = words[w] & 0x0F0F0F0FU;
          const uint32_t odd = (words[w] >> 4U) & 0x0F0F0F0FU;
          const uint32_t low = __byte_perm(even, odd, 0x5140U);
          const uint32_t high = __byte_perm(even, odd, 0x7362U);
          *key_unit(tile, unit % kPositions, unit / kPositions * 4 + w) =
              make_uint4(scaled_pair<8>(low, 0x4140U, d), scaled_pair<8>(low, 0x4342U, d),
                         scaled_pair<8>(high, 0x4140U, d), scaled_pair<8>(high, 0x4342U, d));
        }
      });
      return;
    default: {
      const KvHead head = keys_of(at.args.kv, at.page(), at.kv_head, kDim);
      const auto* units = reinterpret_cast<const uint4*>(head.units);
      for_units<kPositions * kDim / 8>([&](int /*i*/, int unit) {
        const int p = unit % kPositions;
        const int u = unit / kPositions;
        start_copy(key_unit(tile, p, u), units + u * kPage + at.first % kPage + p, true);
      });
    }
  }
}

/// Positions of a tile, by their place in it.
struct Places {
  int begin;
  int end;
};

/// The f16 pair of positions p and p + 1, with zeros for those that are not seen.
__device__ __forceinline__ uint32_t seen_pair(uint32_t pair, int p, const Places& seen) {
  if (p >= seen.begin && p + 1 < seen.end) return pair;
  const uint32_t low = p >= seen.begin && p < seen.end ? pair & 0xFFFFU : 0;
  return p + 1 >= seen.begin && p + 1 < seen.end ? low | (pair & 0xFFFF0000U) : low;
}

template <int kDim>
__device__ __forceinline__ void put_values(const TilePlace& at, const RawValues& raw,
                                           Tile<kDim>& tile) {
  constexpr int kPairs = kDim / 2;
  const Places seen = {at.begin - at.first, at.end - at.first};
  switch (at.args.kv.v_type) {
    case KvType::kQ8_0:
      for_units<kPairs * kPositions / 8>([&](int i, int unit) {
        const int pair = unit % kPairs;
        const int u = unit / kPairs;
        const uint32_t words[4] = {raw.units[i].x, raw.units[i].y, raw.units[i].z, raw.units[i].w};
        const uint32_t d[4] = {raw.scales[i].x, raw.scales[i].y, raw.scales[i].z, raw.scales[i].w};
        uint32_t out[2][4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const uint32_t biased = words[w] ^ 0x80808080U;
          const int p = 8 * u + 2 * w;
          out[0][w] = seen_pair(scaled_pair<128>(biased, 0x4240U, d[w]), p, seen);
          out[1][w] = seen_pair(scaled_pair<128>(biased, 0x4341U, d[w]), p, seen);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          *value_unit(tile, 2 * pair + e, u) =
              make_uint4(out[e][0], out[e][1], out[e][2], out[e][3]);
        }
      });
      return;
    case KvType::kQ4_0:
      for_units<kPairs * kPositions / 16>([&](int i, int unit) {
        const int pair = unit % kPairs;
        const uint32_t words[4] = {raw.units[i].x, raw.units[i].y, raw.units[i].z, raw.units[i].w};
        const uint32_t d[8] = {raw.scales[i].x,     raw.scales[i].y,     raw.scales[i].z,
                               raw.scales[i].w,     raw.scales[i + 1].x, raw.scales[i + 1].y,
                               raw.scales[i + 1].z, raw.scales[i + 1].w};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int u = unit / kPairs * 2 + j;
          uint32_t out[2][4];
#pragma unroll
          for (int w = 0; w < 2; ++w) {
            const uint32_t word = words[2 * j + w];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const uint32_t nibbles = (word >> (4 * e)) & 0x0F0F0F0FU;
              const int p = 8 * u + 4 * w;
              out[e][2 * w] =
                  seen_pair(scaled_pair<8>(nibbles, 0x4140U, d[4 * j + 2 * w]), p, seen);
              out[e][2 * w + 1] =
                  seen_pair(scaled_pair<8>(nibbles, 0x4342U, d[4 * j + 2 * w + 1]), p + 2, seen);
            }
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            *value_unit(tile, 2 * pair + e, u) =
                make_uint4(out[e][0], out[e][1], out[e][2], out[e][3]);
          }
        }
      });
      return;
    default: {
      const KvHead head =
          values_of(at.args.kv, at.page(), at.args.dims.n_kv_heads, at.kv_head, kDim);
      const auto* units = reinterpret_cast<const uint4*>(head.units);
      const int slot = at.first % kPage;
      for_units<kPairs * kPositions / 8>([&](int /*i*/, int unit) {
        const int pair = unit % kPairs;
        const int u = unit / kPairs;
        uint32_t out[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 four = units[(slot / 4 + 2 * u + half) * kPairs + pair];
          const int p = 8 * u + 4 * half;
          out[0][2 * half] = seen_pair(__byte_perm(four.x, four.y, 0x5410U), p, seen);
          out[1][2 * half] = seen_pair(__byte_perm(four.x, four.y, 0x7632U), p, seen);
          out[0][2 * half + 1] = seen_pair(__byte_perm(four.z, four.w, 0x5410U), p + 2, seen);
          out[1][2 * half + 1] = seen_pair(__byte_perm(four.z, four.w, 0x7632U), p + 2, seen);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          *value_unit(tile, 2 * pair + e, u) =
              make_uint4(out[e][0], out[e][1], out[e][2], out[e][3]);
        }
      });
    }
  }
}

/// A lane's part of 16 queries: those with index group and group + 8.
template <int kDim>
struct Running {
  uint32_t q[kDim / 16][4];  ///< queries, in fragments of 16 elements
  float o[kDim / 8][4];      ///< weighted values, in fragments of 8 elements
  float max[2];              ///< running maxima of the scores, which are base-2 logarithms
  float sum[2];
};

/// Scores of a tile, in fragments of 8 positions.
using Scores = float[kPositions / 8][4];

__device__ __forceinline__ uint32_t pack(float low, float high) {
  return round_f16(low) | static_cast<uint32_t>(round_f16(high)) << 16U;
}

template <int kDim>
__device__ __forceinline__ void score_tile(Tile<kDim>& tile, const Running<kDim>& run, Scores& s) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
    for (int t = 0; t < kPositions / 16; ++t) {
      uint32_t b[4];
      load_matrices(key_unit(tile, 16 * t + matrix / 2 * 8 + lane % 8, 2 * k + matrix % 2), b);
      mma_f16(run.q[k], b[0], b[1], s[2 * t]);
      mma_f16(run.q[k], b[2], b[3], s[2 * t + 1]);
    }
  }
}

/// Turns scores into weights and scales the running sums to the new maximum. `least`, `last`: the
/// first and the last positions that the lane's two queries see. `some_hidden`: some query of the
/// block does not see the whole tile.
template <int kDim>
__device__ __forceinline__ void weigh_tile(float scale, int first, const int (&least)[2],
                                           const int (&last)[2], bool some_hidden, Scores& s,
                                           Running<kDim>& run) {
  const int part = static_cast<int>(threadIdx.x) % 4 * 2;
  float keep[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = run.max[half];
#pragma unroll
    for (int t = 0; t < kPositions / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& score = s[t][2 * half + j];
        score = score * scale;
        const int p = first + t * 8 + part + j;
        if (some_hidden && (p > last[half] || p < least[half])) score = -INFINITY;
        top = score > top ? score : top;
      }
    }
    for (int distance = 1; distance < 4; distance *= 2) {
      const float other = __shfl_xor_sync(kFullWarp, top, distance);
      top = other > top ? other : top;
    }
    const float max = top;
    // A query that sees nothing of this tile nor of those before it keeps sums of zero.
    if (top == -INFINITY) top = 0;
    keep[half] = fast_exp2(run.max[half] - top);
    float sum = run.sum[half] * keep[half];
#pragma unroll
    for (int t = 0; t < kPositions / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float& w = s[t][2 * half + j];
        w = fast_exp2(w - top);
        sum = sum + w;
      }
    }
    run.max[half] = max;
    run.sum[half] = sum;
  }
  if (!__any_sync(kFullWarp, keep[0] != 1 || keep[1] != 1)) return;
#pragma unroll
  for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) run.o[t][j] = run.o[t][j] * keep[j / 2];
  }
}

template <int kDim>
__device__ __forceinline__ void add_tile(Tile<kDim>& tile, const Scores& w, Running<kDim>& run) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kPositions / 16; ++k) {
    const float(&w0)[4] = w[2 * k];
    const float(&w1)[4] = w[2 * k + 1];
    const uint32_t a[4] = {pack(w0[0], w0[1]), pack(w0[2], w0[3]), pack(w1[0], w1[1]),
                           pack(w1[2], w1[3])};
#pragma unroll
    for (int t = 0; t < kDim / 16; ++t) {
      uint32_t b[4];
      load_matrices(value_unit(tile, 16 * t + matrix / 2 * 8 + lane % 8, 2 * k + matrix % 2), b);
      mma_f16(a, b[0], b[1], run.o[2 * t]);
      mma_f16(a, b[2], b[3], run.o[2 * t + 1]);
    }
  }
}

/// Rotates the queries' results back by H (docs/numerics.md, "Rotated heads"), in registers.
template <int kDim>
__device__ __forceinline__ void rotate(float (&o)[kDim / 8][4]) {
  const int part = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const float a = o[t][j];
      const float b = o[t][j + 1];
      o[t][j] = a + b;
      o[t][j + 1] = a - b;
    }
    for (int distance = 1; distance < 4; distance *= 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float other = __shfl_xor_sync(kFullWarp, o[t][j], distance);
        o[t][j] = (part & distance) == 0 ? o[t][j] + other : other - o[t][j];
      }
    }
  }
#pragma unroll
  for (int distance = 1; distance < kDim / 8; distance *= 2) {
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
      if ((t & distance) != 0) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float a = o[t][j];
        const float b = o[t + distance][j];
        o[t][j] = a + b;
        o[t + distance][j] = a - b;
      }
    }
  }
  const float scale = 1.0F / sqrtf(static_cast<float>(kDim));
#pragma unroll
  for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) o[t][j] = o[t][j] * scale;
  }
}

/// Query `index` of a slice: row by row, with the query heads of the kv head for each row.
struct PrefillQuery {
  int row;
  int head;
};

__device__ __forceinline__ PrefillQuery prefill_query(const SliceArgs& slice, int group,
                                                      int kv_head, int index) {
  return {slice.row_begin + index / group, kv_head * group + index % group};
}

/// The first position that a row attends to.
__device__ __forceinline__ int first_seen(const AttendArgs& args, int row) {
  return args.window > 0 ? max(args.batch.row_position[row] + 1 - args.window, 0) : 0;
}

template <int kDim>
__device__ __forceinline__ void attend_prefill(const AttendArgs& args, Tile<kDim>* tiles) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int group = args.dims.n_heads / args.dims.n_kv_heads;
  const int blocks = (args.rows_per_slice * group + kQueries - 1) / kQueries;
  const SliceArgs slice = args.batch.slices[blockIdx.x / blocks];
  const int first_query = static_cast<int>(blockIdx.x) % blocks * kQueries;
  const int queries = min(kQueries, slice.row_count * group - first_query);
  if (slice.row_class != kPrefillRows || queries <= 0) return;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const auto thread = static_cast<int>(threadIdx.x);
  const int part = thread % 4 * 2;

  // Missing queries repeat the last one; their results are not written.
  const int query = thread / kWarp * 16 + thread % kWarp / 4;
  Running<kDim> run = {};
  int least[2];
  int last[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int index = first_query + min(query + 8 * half, queries - 1);
    const PrefillQuery at = prefill_query(slice, group, kv_head, index);
    least[half] = first_seen(args, at.row);
    last[half] = args.batch.row_visible[at.row] - 1;
    const float* q =
        args.qg.data + at.row * args.qg.stride + at.head * args.dims.query_stride() + part;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      run.q[k][half] = pack(q[16 * k], q[16 * k + 1]);
      run.q[k][2 + half] = pack(q[16 * k + 8], q[16 * k + 9]);
    }
    run.max[half] = -INFINITY;
  }
  const int first_row = prefill_query(slice, group, kv_head, first_query).row;
  const int last_row = prefill_query(slice, group, kv_head, first_query + queries - 1).row;
  // All queries see [all_begin, all_end); some query sees each of [begin, end).
  const int begin = first_seen(args, first_row);
  const int all_begin = first_seen(args, last_row);
  const int all_end = args.batch.row_visible[first_row];
  const int end = args.batch.row_visible[last_row];
  constexpr float kLog2E = 1.44269504F;
  const float scale = args.scale * kLog2E;

  RawKeys keys;
  RawValues values;
  const int first_tile = begin / kPositions * kPositions;
  TilePlace next = {args, slice.sequence, kv_head, first_tile, begin, end};
  auto fetch = [&]() {
    fetch_keys<kDim>(next, keys);
    fetch_values<kDim>(next, values);
  };
  auto put = [&](Tile<kDim>& tile) {
    put_keys(next, keys, tile);
    put_values(next, values, tile);
    next.first += kPositions;
    if (next.first < end) fetch();
  };
  fetch();
  put(tiles[0]);
  wait_for_copies();
  __syncthreads();
  for (int first = first_tile, at = 0; first < end; first += kPositions, at ^= 1) {
    if (next.first < end) put(tiles[at ^ 1]);
    Scores s = {};
    score_tile(tiles[at], run, s);
    const bool some_hidden = first + kPositions > all_end || first < all_begin;
    weigh_tile(scale, first, least, last, some_hidden, s, run);
    add_tile(tiles[at], s, run);
    wait_for_copies();
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = run.sum[half];
    for (int distance = 1; distance < 4; distance *= 2) {
      sum = sum + __shfl_xor_sync(kFullWarp, sum, distance);
    }
    float keep = 1;
    if (args.sinks != nullptr) {
      const int index = first_query + min(query + 8 * half, queries - 1);
      const float sink = args.sinks[prefill_query(slice, group, kv_head, index).head] * kLog2E;
      const float max = run.max[half] > sink ? run.max[half] : sink;
      keep = fast_exp2(run.max[half] - max);
      sum = sum * keep + fast_exp2(sink - max);
    }
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) run.o[t][2 * half + j] = run.o[t][2 * half + j] * keep / sum;
    }
  }
  if (has_scales(args.kv.v_type)) rotate<kDim>(run.o);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (query + 8 * half >= queries) break;
    const PrefillQuery at = prefill_query(slice, group, kv_head, first_query + query + 8 * half);
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        write_element(args, at.row, at.head, t * 8 + part + j, true, run.o[t][2 * half + j]);
      }
    }
  }
}

}  // namespace

// Grid: [slices * blocks of kPrefillQueries queries, kv heads]: one block per 128 of a slice's
// rows_per_slice * (query heads per kv head) queries. Dynamic shared memory:
// prefill_shared_bytes(head_dim).

CHIMERE_KERNEL(attend_prefill_32, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(Tile<32>, tiles);
  attend_prefill(args, tiles);
}

CHIMERE_KERNEL(attend_prefill_64, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(Tile<64>, tiles);
  attend_prefill(args, tiles);
}

CHIMERE_KERNEL(attend_prefill_128, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(Tile<128>, tiles);
  attend_prefill(args, tiles);
}

CHIMERE_KERNEL(attend_prefill_256, kThreads, AttendArgs, args) {
  CHIMERE_DYNAMIC_SHARED(Tile<256>, tiles);
  static_assert(2 * sizeof *tiles == prefill_shared_bytes(256));
  attend_prefill(args, tiles);
}

}  // namespace chimere::kernels::cuda
