// Ops::qk_norm_rope_append in one launch, with the bits of ref: heads of q are normalised, then
// rotated by position and by H, in place; heads of k likewise while they are written to the pages;
// heads of v by H only.
//
// Bytes: each row is read once; queries are written back, keys and values in the types of the
// cache.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/kv_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/rope_angle.h"

namespace chimere::kernels::cuda {
namespace {

/// Element i of a head is register i / 32 of lane i % 32. kSize: number of elements, for full
/// unrolling; 0: not known at compile time.
template <int kSize>
struct Head {
  static constexpr int kOwn = (kSize == 0 ? kMaxHeadDim : kSize) / kWarp;
  float x[kOwn];
  int any_n;
  int lane;

  __device__ __forceinline__ int n() const { return kSize == 0 ? any_n : kSize; }
  __device__ __forceinline__ bool has(int m) const { return m * kWarp + lane < n(); }
};

/// dot16(x, x). Elements of partial sum i mod 16 are in two lanes, which both compute it.
template <int kSize>
__device__ __forceinline__ float squares(const Head<kSize>& head) {
  float s = 0;
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m) {
    if (m * kWarp >= head.n()) break;
    const float own = head.x[m];
    const float other = __shfl_xor_sync(kFullWarp, own, 16);
    const float low = head.lane < 16 ? own : other;
    const float high = head.lane < 16 ? other : own;
    s = fmaf(low, low, s);
    if (m * kWarp + 16 < head.n()) s = fmaf(high, high, s);
  }
  return tree_of_16(s);
}

/// Applies the norm, if there is a weight, and the rotation by position; `row`: this warp's shared
/// memory.
template <int kSize>
__device__ __forceinline__ void normalise_and_rotate(Head<kSize>& head, const float* weight,
                                                     float eps, const float* cos_sin, int half,
                                                     float* row) {
  if (weight != nullptr) {
    const float scale = 1.0F / sqrtf(squares(head) / static_cast<float>(head.n()) + eps);
#pragma unroll
    for (int m = 0; m < Head<kSize>::kOwn; ++m) {
      if (!head.has(m)) break;
      head.x[m] = head.x[m] * scale * weight[m * kWarp + head.lane];
    }
  }
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m) {
    if (!head.has(m)) break;
    row[m * kWarp + head.lane] = head.x[m];
  }
  __syncwarp();
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m) {
    const int i = m * kWarp + head.lane;
    if (!head.has(m) || i >= 2 * half) break;
    const bool low = i < half;
    const float c = cos_sin[low ? i : i - half];
    const float s = cos_sin[low ? half + i : i];
    if (low) {
      head.x[m] = fmaf(head.x[m], c, -(row[half + i] * s));
    } else {
      head.x[m] = fmaf(head.x[m], c, row[i - half] * s);
    }
  }
}

/// Multiplies the head by H: distances below 32 between lanes, the others between registers.
template <int kSize>
__device__ __forceinline__ void rotate_head(Head<kSize>& head) {
  const int block = head.n() & -head.n();
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    if (distance >= block) break;
    const bool low = (head.lane & distance) == 0;
#pragma unroll
    for (int m = 0; m < Head<kSize>::kOwn; ++m) {
      if (m * kWarp >= head.n()) break;
      const float own = head.x[m];
      const float other = __shfl_xor_sync(kFullWarp, own, distance);
      head.x[m] = low ? own + other : other - own;
    }
  }
#pragma unroll
  for (int distance = 1; distance < Head<kSize>::kOwn; distance *= 2) {
    if (distance * kWarp >= block) break;
#pragma unroll
    for (int m = 0; m < Head<kSize>::kOwn; ++m) {
      if ((m & distance) != 0 || m * kWarp >= head.n()) continue;
      const float a = head.x[m];
      const float b = head.x[m | distance];
      head.x[m] = a + b;
      head.x[m | distance] = a - b;
    }
  }
  const float scale = 1.0F / sqrtf(static_cast<float>(block));
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m) head.x[m] = head.x[m] * scale;
}

/// Scale of a block of 32, one element per lane, and the element's level (docs/numerics.md, "Types
/// of the cache").
struct Level {
  uint16_t d;
  int q;
};

__device__ __forceinline__ Level round_to_levels(float x, KvType type) {
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr uint16_t kF16NaN = 0x7E00;
  const uint32_t bits = __float_as_uint(x) & 0x7FFFFFFFU;
  if (__any_sync(kFullWarp, bits >= kInfinity)) return {kF16NaN, 0};
  uint32_t largest = bits;
  for (int half = 16; half > 0; half /= 2) {
    const uint32_t other = __shfl_xor_sync(kFullWarp, largest, half);
    largest = other > largest ? other : largest;
  }
  const int first = __ffs(static_cast<int>(__ballot_sync(kFullWarp, bits == largest))) - 1;
  const float most = __shfl_sync(kFullWarp, x, first);
  const bool bytes = type == KvType::kQ8_0;
  const uint16_t d = round_f16(bytes ? fabsf(most) / 127.0F : most / -8.0F);
  const float step = widen_f16(d);
  if (step == 0) return {d, 0};
  const float low = bytes ? -127.0F : -8.0F;
  const float high = bytes ? 127.0F : 7.0F;
  const float level = x / step;
  return {d, __float2int_rn(level < low ? low : level > high ? high : level)};
}

/// Stores the head as a key or value of position `slot` of a page.
template <int kSize>
__device__ __forceinline__ void store_head(const Head<kSize>& head, const KvHead& to, KvType type,
                                           bool is_key, int slot) {
  const int per_unit = 128 / element_bits(type);
  const int positions = per_unit / 2;  // per unit of values
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m) {
    const int i = m * kWarp + head.lane;
    if (m * kWarp >= head.n()) break;
    const int unit_index =
        is_key ? i / per_unit * kPage + slot : slot / positions * (head.n() / 2) + i / 2;
    const int at = is_key ? i % per_unit : slot % positions * 2 + i % 2;
    uint8_t* unit = to.units + static_cast<int64_t>(unit_index) * 16;
    if (has_scales(type)) {
      const Level level = round_to_levels(head.x[m], type);
      if (head.lane == 0) to.scales[m * kPage + slot] = level.d;
      if (type == KvType::kQ8_0) {
        unit[at] = static_cast<uint8_t>(level.q);
      } else {
        const int next = __shfl_xor_sync(kFullWarp, level.q, 1);
        if (at % 2 == 0) unit[at / 2] = static_cast<uint8_t>((level.q + 8) | (next + 8) << 4);
      }
    } else if (!head.has(m)) {
      break;
    } else if (type == KvType::kF32) {
      reinterpret_cast<float*>(unit)[at] = head.x[m];
    } else {
      reinterpret_cast<uint16_t*>(unit)[at] =
          type == KvType::kF16 ? round_f16(head.x[m]) : round_bf16(head.x[m]);
    }
  }
}

}  // namespace

/// Grid: [angles / block]; one thread per angle and row.
CHIMERE_KERNEL(rope_table, 128, RopeTableArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at >= args.rows * args.half) return;
  const int row = at / args.half;
  const int i = at % args.half;
  const CosSin v = cos_sin(args.row_position[row] * args.frequencies[i]);
  float* out = args.table + static_cast<int64_t>(row) * 2 * args.half;
  out[i] = static_cast<float>(v.cos);
  out[args.half + i] = static_cast<float>(v.sin);
}

namespace {

template <int kSize>
__device__ __forceinline__ void append_heads(const AppendArgs& args, float* rows) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int n = args.dims.head_dim;
  const auto row = static_cast<int>(blockIdx.x);
  const int unit = static_cast<int>(blockIdx.y) * kAppendWarps + warp;
  const int position = args.batch.row_position[row];
  if (position < 0 || unit >= args.dims.n_heads + 2 * args.dims.n_kv_heads) return;
  const bool is_q = unit < args.dims.n_heads;
  const bool is_k = !is_q && unit < args.dims.n_heads + args.dims.n_kv_heads;
  const int kv_head = (unit - args.dims.n_heads) % args.dims.n_kv_heads;
  float* query = args.qg.data + row * args.qg.stride + unit * args.dims.query_stride();
  const ConstRows& kv_rows = is_k ? args.k : args.v;
  const float* from =
      is_q ? query : kv_rows.data + row * kv_rows.stride + static_cast<int64_t>(kv_head) * n;

  Head<kSize> head;
  head.any_n = n;
  head.lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int m = 0; m < Head<kSize>::kOwn; ++m)
    head.x[m] = head.has(m) ? from[m * kWarp + head.lane] : 0;
  if (is_q || is_k) {
    const int half = args.dims.rope_dims / 2;
    normalise_and_rotate(head, is_q ? args.q_norm : args.k_norm, args.eps,
                         args.rope + static_cast<int64_t>(row) * 2 * half, half,
                         rows + warp * kMaxHeadDim);
  }
  if (has_scales(is_q || is_k ? args.kv.k_type : args.kv.v_type)) rotate_head(head);
  if (is_q) {
#pragma unroll
    for (int m = 0; m < Head<kSize>::kOwn; ++m) {
      if (head.has(m)) query[m * kWarp + head.lane] = head.x[m];
    }
    return;
  }
  uint8_t* page = page_of(args.batch, args.kv, args.batch.row_sequence[row], position);
  const KvHead to = is_k ? keys_of(args.kv, page, kv_head, n)
                         : values_of(args.kv, page, args.dims.n_kv_heads, kv_head, n);
  store_head(head, to, is_k ? args.kv.k_type : args.kv.v_type, is_k, position % kPage);
}

}  // namespace

/// Grid: [rows, heads of q, k and v / kAppendWarps]; one warp per head.
CHIMERE_KERNEL(qk_norm_rope_append, kAppendWarps* kWarp, AppendArgs, args) {
  __shared__ float rows[kAppendWarps * kMaxHeadDim];
  let_next_kernel_start();
  wait_for_previous_kernel();
  switch (args.dims.head_dim) {
    case 128:
      return append_heads<128>(args, rows);
    case 256:
      return append_heads<256>(args, rows);
    default:
      return append_heads<0>(args, rows);
  }
}

}  // namespace chimere::kernels::cuda
