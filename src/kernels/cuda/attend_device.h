// Device code: what the attention kernels share: the heads of a block, folding of splits, and the
// final steps, applied to the weighted sums of a row's heads.
#ifndef CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_

#include "kernels/cuda/kv_device.h"
#include "kernels/cuda/ptx/opaque.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// The heads of a block.
struct HeadTile {
  int kv_head;
  int tile;  ///< of the kv head
  int first;
  int count;
};

/// Those of block `index` of the blocks of all kv heads.
template <int kHeads>
__device__ __forceinline__ HeadTile head_tile(const AttendArgs& args, int index) {
  HeadTile heads = {0, index, 0, 0};
  for (; heads.tile >= args.tiles; heads.tile -= args.tiles) ++heads.kv_head;
  heads.first = heads.kv_head * args.group + heads.tile * kHeads;
  heads.count = min(kHeads, args.group - heads.tile * kHeads);
  return heads;
}

/// Calls f<kType>() for the type. Avoids a jump table, which would cost another load.
template <class F>
__device__ __forceinline__ void for_type(KvType type, F f) {
  if (type == KvType::kF16) {
    f.template operator()<KvType::kF16>();
  } else if (has_scales(type)) {
    if (opaque(static_cast<int>(type)) == static_cast<int>(KvType::kQ8_0)) {
      f.template operator()<KvType::kQ8_0>();
    } else {
      f.template operator()<KvType::kQ4_0>();
    }
  } else if (opaque(static_cast<int>(type)) == static_cast<int>(KvType::kBF16)) {
    f.template operator()<KvType::kBF16>();
  } else {
    f.template operator()<KvType::kF32>();
  }
}

/// The factors that a running sum and the next split's sum are combined with.
struct Fold {
  float max;
  float keep;
  float take;
};

__device__ __forceinline__ Fold fold_of(float max, float next) {
  const float top = next > max ? next : max;
  return {top, exp_f32(max - top), exp_f32(next - top)};
}

/// The partial result of a row's split, from its first one on, for a head; in args.parts.
struct Part {
  float* o;
  float2* max_and_sum;
};

__device__ __forceinline__ Part part_of(const AttendArgs& args, int head, int split) {
  const int64_t heads = args.dims.n_heads;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * heads + head) * args.max_splits;
  float* rest = args.parts + gridDim.x * heads * args.max_splits * args.dims.head_dim;
  return {args.parts + (at + split) * args.dims.head_dim,
          reinterpret_cast<float2*>(rest) + at + split};
}

/// Applies the normalised Hadamard transform in place to `heads` heads of n elements in shared
/// memory. All threads of the block take part; the caller synchronises before and after.
__device__ __forceinline__ void rotate_heads(float* x, int heads, int n) {
  const int block = n & -n;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  for (int distance = 1; distance < block; distance *= 2) {
    for (int h = 0; h < heads; ++h) {
      for (int pair = thread; pair < n / 2; pair += threads) {
        const int within = pair & (distance - 1);
        float* low = x + h * n + 2 * (pair - within) + within;
        const float a = low[0];
        const float b = low[distance];
        low[0] = a + b;
        low[distance] = a - b;
      }
    }
    __syncthreads();
  }
  const float scale = 1.0F / sqrtf(static_cast<float>(block));
  for (int i = thread; i < heads * n; i += threads) x[i] = x[i] * scale;
}

/// Writes element i of head h of a row's result, times its gate if the layer is gated, and returns
/// it. Padding (`real` false) is not written.
__device__ __forceinline__ float write_element(const AttendArgs& args, int row, int64_t h, int i,
                                               bool real, float o) {
  const int n = args.dims.head_dim;
  if (args.dims.gated != 0) {
    o = o * sigmoid(args.qg.data[row * args.qg.stride + (2 * h + 1) * n + i]);
  }
  if (real) args.out.data[row * args.out.stride + h * n + i] = o;
  return o;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTEND_DEVICE_H_
