// Norms over rows and heads. Sums follow rule 2: 16 chains of length n / 16. A chain cannot be
// split without changing its bits, so the block's other threads only load, round and store. A
// launch of few blocks is limited by instruction fetches, because the kernels of a layer evict each
// other's code from the caches: its blocks warm the instruction cache on their weights before the
// previous kernel has ended.
#include "kernels/activation.h"
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/norm_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

namespace {

/// dot16(x, x) of n elements in shared memory, by the first 16 lanes of a warp, which get the
/// result. All lanes of the warp take part. kWhole: the remainder of whole pieces is loaded at once
/// too, which takes more instructions.
template <bool kWhole = false>
__device__ __forceinline__ float squares_of_row(const float* x, int n, int lane) {
  constexpr int kAtOnce = 16;  // loads in flight while as many products are added
  float s = 0;
  int i = lane % 16;
  const int pieces = n / (16 * kAtOnce);
  float v[kAtOnce];
  if (pieces > 0) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) v[j] = x[i + 16 * j];
  }
#pragma unroll 2
  for (int piece = 0; piece < pieces; ++piece) {
    i += 16 * kAtOnce;
    const int next = piece + 1 < pieces ? i : lane % 16;
    float coming[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) coming[j] = x[next + 16 * j];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) s = fmaf(v[j], v[j], s);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) v[j] = coming[j];
  }
  if constexpr (kWhole) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) v[j] = i + 16 * j < n ? x[i + 16 * j] : 0;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + 16 * j < n) s = fmaf(v[j], v[j], s);
    }
  } else {
#pragma unroll 1
    for (; i < n; i += 16) s = fmaf(x[i], x[i], s);
  }
  return tree_of_16(s);
}

/// `row`: shared memory of n floats, then the scale.
template <int kThreads>
__device__ __forceinline__ void normalise(const RmsNormArgs& args, float* row) {
  constexpr int kOwn = kNormElements;  // of a thread, in flight together
  constexpr int kAtOnce = kOwn * kThreads;
  let_next_kernel_start();
  const int n = args.n;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const bool rounds = args.rounded.q != nullptr;  // otherwise n is arbitrary
  float weight[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int i = thread + j * kThreads;
    weight[j] = i < n ? args.weight[i] : 0;
  }
  bool warm_icache = args.warm_icache != 0;
#pragma unroll 1
  while (true) {
    if (!warm_icache) wait_for_previous_kernel();
    const float* x = warm_icache ? args.weight : args.x + blockIdx.x * args.x_stride;
    float* y = args.y + blockIdx.x * args.y_stride;
    const int written = warm_icache ? 0 : n;
#pragma unroll 1
    for (int begin = thread; begin < n; begin += kAtOnce) {
      float v[kOwn];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int i = begin + j * kThreads;
        v[j] = i < n ? x[i] : 0;
      }
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int i = begin + j * kThreads;
        if (i < n) row[i] = v[j];
      }
    }
    __syncthreads();
    if (thread < kWarp) {
      const float s = squares_of_row<(kThreads > kNormThreads)>(row, n, thread);
      if (thread == 0) row[n] = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
    }
    __syncthreads();
    const float scale = row[n];
#pragma unroll 1
    for (int begin = thread; begin < n; begin += kAtOnce) {
      float v[kOwn];
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int i = begin + j * kThreads;
        const float w = begin == thread ? weight[j] : i < n ? args.weight[i] : 0;
        v[j] = i < n ? row[i] * scale * w : 0;
        if (i < written) y[i] = v[j];
      }
      if (!rounds) continue;
      RoundedLane rounded[kOwn];
      round_lanes(v, rounded);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int i = begin + j * kThreads;
        if (i < written) {
          put_block_of_row(rounded[j], lane, blockIdx.x, i / kWarp, n / kWarp, args.rounded);
        }
      }
    }
    if (!warm_icache) return;
    warm_icache = false;
    __syncthreads();
  }
}

}  // namespace

CHIMERE_KERNEL(rms_norm, kNormThreads, RmsNormArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, row);
  normalise<kNormThreads>(args, row);
}

/// For few long rows.
CHIMERE_KERNEL(rms_norm_wide, kWideNormThreads, RmsNormArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, row);
  normalise<kWideNormThreads>(args, row);
}

CHIMERE_KERNEL(layer_norm, kLayerNormThreads, LayerNormArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, row);  // [n], then less its mean
  __shared__ float result;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = args.n;
  const int thread = static_cast<int>(threadIdx.x);
  const float* x = args.x + blockIdx.x * args.x_stride;
  float* y = args.y + blockIdx.x * args.y_stride;
  for (int i = thread; i < n; i += kLayerNormThreads) row[i] = x[i];
  __syncthreads();
  if (thread < kWarp) {
    float s = 0;
    for (int i = thread % 16; i < n; i += 16) s = s + row[i];
    s = tree_of_16(s);
    if (thread == 0) result = s / static_cast<float>(n);
  }
  __syncthreads();
  const float mean = result;
  for (int i = thread; i < n; i += kLayerNormThreads) row[i] = row[i] - mean;
  __syncthreads();
  if (thread < kWarp) {
    const float s = squares_of_row(row, n, thread);
    if (thread == 0) result = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
  }
  __syncthreads();
  const float scale = result;
  for (int i = thread; i < n; i += kLayerNormThreads) {
    const float normed = row[i] * scale;
    y[i] =
        args.bias != nullptr ? fmaf(normed, args.weight[i], args.bias[i]) : normed * args.weight[i];
  }
}

CHIMERE_KERNEL(gated_rms_norm, kGatedNormThreads, GatedRmsNormArgs, args) {
  constexpr int kOwn = 8;  // elements of a lane in registers: heads of up to 256
  let_next_kernel_start();
  const int warps = kGatedNormThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int unit = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  if (unit >= args.rows * args.heads) return;
  const int row = unit / args.heads;
  const int head = unit % args.heads;
  const int n = args.head_dim;
  const int64_t begin = static_cast<int64_t>(head) * n;
  wait_for_previous_kernel();
  const float* x = args.x + row * args.x_stride + begin;
  const float* z = args.z + row * args.z_stride + begin;
  float* y = args.y + row * args.y_stride + begin;
  float own[kOwn];
  float gate[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int i = lane + j * kWarp;
    own[j] = i < n ? x[i] : 0;
    gate[j] = i < n ? z[i] : 0;
  }
  // Elements of partial sum i mod 16 are in two lanes, which both compute it.
  float s = 0;
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const float other = __shfl_xor_sync(kFullWarp, own[j], 16);
    const float low = lane < 16 ? own[j] : other;
    const float high = lane < 16 ? other : own[j];
    if (j * kWarp < n) s = fmaf(low, low, s);
    if (j * kWarp + 16 < n) s = fmaf(high, high, s);
  }
  s = tree_of_16(s);
  const float scale = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int i = lane + j * kWarp;
    if (j * kWarp >= n) break;
    const float v = i < n ? own[j] * scale * args.weight[i] * silu(gate[j]) : 0;
    if (i < n) y[i] = v;
    if (args.rounded.q != nullptr) {
      round_block_of_row(v, lane, row, head * (n / kWarp) + j, args.heads * (n / kWarp),
                         args.rounded);
    }
  }
}

CHIMERE_KERNEL(gated_group_rms_norm, kGatedNormThreads, GatedGroupNormArgs, args) {
  constexpr int kOwn = kMaxGatedGroup / kWarp;  // elements of a lane in registers
  const int warps = kGatedNormThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int unit = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  let_next_kernel_start();
  if (unit >= args.rows * args.groups) return;
  const int row = unit / args.groups;
  const int group = unit % args.groups;
  const int n = args.n;
  const int64_t begin = static_cast<int64_t>(group) * n;
  float weight[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    weight[j] = j * kWarp < n ? args.weight[begin + lane + j * kWarp] : 0;
  }
  wait_for_previous_kernel();
  const float* x = args.x + row * args.x_stride + begin;
  float* z = args.z + row * args.z_stride + begin;
  float up[kOwn];
  float own[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    up[j] = j * kWarp < n ? x[lane + j * kWarp] : 0;
    own[j] = j * kWarp < n ? z[lane + j * kWarp] : 0;
  }
#pragma unroll
  for (int j = 0; j < kOwn; ++j) own[j] = kernels::activate(Activation::kSilu, own[j], up[j]);
  // Elements of partial sum i mod 16 are in two lanes, which both compute it.
  float s = 0;
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const float other = __shfl_xor_sync(kFullWarp, own[j], 16);
    if (j * kWarp >= n) continue;
    s = fmaf(lane < 16 ? own[j] : other, lane < 16 ? own[j] : other, s);
    s = fmaf(lane < 16 ? other : own[j], lane < 16 ? other : own[j], s);
  }
  s = tree_of_16(s);
  const float scale = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
  const int blocks = n / kWarp;
#pragma unroll
  for (int first = 0; first < kOwn; first += 4) {
    if (first * kWarp >= n) break;
    float v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[j] = own[first + j] * scale * weight[first + j];
      if (first + j < blocks) z[lane + (first + j) * kWarp] = v[j];
    }
    if (args.rounded.q == nullptr) continue;
    RoundedLane rounded[4];
    round_lanes(v, rounded);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (first + j >= blocks) break;
      put_block_of_row(rounded[j], lane, row, group * blocks + first + j, args.groups * blocks,
                       args.rounded);
    }
  }
}

CHIMERE_KERNEL(group_rms_norm, kGatedNormThreads, GroupRmsNormArgs, args) {
  const int warps = kGatedNormThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int unit = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
  let_next_kernel_start();
  if (unit >= args.rows * args.groups) return;
  const int row = unit / args.groups;
  const int n = args.n;
  const int64_t begin = static_cast<int64_t>(unit % args.groups) * n;
  wait_for_previous_kernel();
  const float* x = args.x + row * args.x_stride + begin;
  float* y = args.y + row * args.y_stride + begin;
  const float s = squares_of_row(x, n, lane);
  const float scale = 1.0F / sqrtf(s / static_cast<float>(n) + args.eps);
  for (int i = lane; i < n; i += kWarp) y[i] = x[i] * scale * args.weight[begin + i];
}

}  // namespace chimere::kernels::cuda
