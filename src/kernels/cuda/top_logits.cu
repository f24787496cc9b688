// Gathering selected logits, and the top k of the others. Keys order logits and ids together, so
// sorting integers suffices, and the result does not depend on how the vocabulary is divided into
// tiles.
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/top_logits_args.h"

namespace chimere::kernels::cuda {

namespace {

constexpr uint32_t kInfinityBits = 0x7F800000U;

__device__ __forceinline__ uint64_t key_of(float x, int id) {
  const uint32_t bits = __float_as_uint(x + 0.0F);  // the two zeros are equal
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > kInfinityBits || bits == kInfinityBits) return ~uint64_t{0};
  if (magnitude == kInfinityBits) return 0;
  const uint32_t rising = (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
  return (static_cast<uint64_t>(rising) << 32U) | static_cast<uint32_t>(~id);
}

/// Key of a row's logit. Every lane of a warp reads the same word of the set.
__device__ __forceinline__ uint64_t key_in_set(const TopLogitsArgs& args, int64_t row,
                                               const float* logits, int id) {
  const uint64_t key = key_of(logits[id], id);
  if (args.masks == nullptr || key == ~uint64_t{0}) return key;
  const uint32_t word = args.masks[row * args.mask_words + id / 32];
  return (word >> (static_cast<uint32_t>(id) % 32U) & 1U) != 0 ? key : 0;
}

/// Sorts keys[0 .. n) in falling order, n a power of two, by a block.
__device__ __forceinline__ void sort_falling(uint64_t* keys, int n, int thread) {
  for (int run = 2; run <= n; run *= 2) {
    for (int apart = run / 2; apart > 0; apart /= 2) {
      for (int pair = thread; pair < n / 2; pair += kTopThreads) {
        const int low = 2 * pair - (pair & (apart - 1));
        const int high = low + apart;
        const uint64_t a = keys[low];
        const uint64_t b = keys[high];
        const bool falling = (low & run) == 0;
        if ((a < b) == falling) {
          keys[low] = b;
          keys[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

/// The key of another lane.
__device__ __forceinline__ uint64_t key_from(uint64_t key, int lane_mask) {
  const uint32_t low = __shfl_xor_sync(kFullWarp, static_cast<uint32_t>(key), lane_mask);
  const uint32_t high = __shfl_xor_sync(kFullWarp, static_cast<uint32_t>(key >> 32U), lane_mask);
  return static_cast<uint64_t>(high) << 32U | low;
}

/// One step of a bitonic sort of a warp's keys: compares lanes `apart` from each other, the larger
/// key first if `falling`.
__device__ __forceinline__ uint64_t compared(uint64_t key, int apart, bool falling, int lane) {
  const uint64_t other = key_from(key, apart);
  const bool first = (lane & apart) == 0;
  return (key > other) == (first == falling) ? key : other;
}

/// Sorts the lanes' keys in falling order.
__device__ __forceinline__ uint64_t sort_warp(uint64_t key, int lane) {
#pragma unroll
  for (int run = 2; run <= kWarp; run *= 2) {
#pragma unroll
    for (int apart = run / 2; apart > 0; apart /= 2) {
      key = compared(key, apart, (lane & run) == 0, lane);
    }
  }
  return key;
}

/// The largest kWarp keys of two lists in falling order, in that order.
__device__ __forceinline__ uint64_t merge_warp(uint64_t a, uint64_t b, int lane) {
  const uint64_t reversed = key_from(b, kWarp - 1);
  uint64_t key = a > reversed ? a : reversed;
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) key = compared(key, apart, true, lane);
  return key;
}

/// Entry i of a row's top logits. `first`: the row's largest key.
__device__ __forceinline__ TopLogitArgs top_of(uint64_t key, uint64_t first, int i,
                                               const float* logits) {
  const bool good = first != ~uint64_t{0};
  TopLogitArgs out = {__uint_as_float(kInfinityBits | 0x80000000U), -1};
  if (good && key != 0) {
    out.id = static_cast<int32_t>(~static_cast<uint32_t>(key));
    out.value = logits[out.id];
  }
  if (!good && i == 0) out.value = __uint_as_float(kInfinityBits);
  return out;
}

/// Moves the largest of keys[0 .. n) to keys[0], n a power of two, by a block.
__device__ __forceinline__ void find_largest(uint64_t* keys, int n, int thread) {
  for (int half = n / 2; half > 0; half /= 2) {
    for (int i = thread; i < half; i += kTopThreads) {
      if (keys[i] < keys[i + half]) keys[i] = keys[i + half];
    }
    __syncthreads();
  }
}

}  // namespace

/// The ids of a row are distinct, so threads access different logits.
CHIMERE_KERNEL(gather_logits, kTopThreads, GatherLogitsArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t row = blockIdx.x;
  const float masked = __uint_as_float(kInfinityBits | 0x80000000U);
  float* logits = args.logits + row * args.stride;
  for (int i = static_cast<int>(threadIdx.x); i < args.count; i += kTopThreads) {
    const int id = args.ids[row * args.count + i];
    float value = masked;
    if (id >= 0) {
      value = logits[id];
      logits[id] = masked;
    }
    args.selected[row * args.count + i] = value;
  }
}

CHIMERE_KERNEL(top_logits, kTopThreads, TopLogitsArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint64_t, keys);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * args.tile;
  const float* logits = args.logits + row * args.stride;
  const uint64_t* from = args.keys_in != nullptr ? args.keys_in + row * args.n : nullptr;
  for (int i = thread; i < args.tile; i += kTopThreads) {
    const int at = first + i;
    uint64_t key = 0;
    if (at < args.n) key = from != nullptr ? from[at] : key_in_set(args, row, logits, at);
    keys[i] = key;
  }
  __syncthreads();
  if (args.keep == 1) {
    find_largest(keys, args.tile, thread);
  } else {
    sort_falling(keys, args.tile, thread);
  }
  if (args.keys_out != nullptr) {
    uint64_t* to = args.keys_out + (row * gridDim.x + blockIdx.x) * args.keep;
    for (int i = thread; i < args.keep; i += kTopThreads) to[i] = keys[i];
    return;
  }
  TopLogitArgs* top = args.top + row * args.keep;
  for (int i = thread; i < args.keep; i += kTopThreads) {
    top[i] = top_of(keys[i], keys[0], i, logits);
  }
}

/// The same for at most kWarp logits per row: merges sorted lists in a warp's registers.
CHIMERE_KERNEL(top_few_logits, kTopThreads, TopLogitsArgs, args) {
  constexpr int kWarps = kTopThreads / kWarp;
  __shared__ uint64_t lists[kTopThreads];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int64_t row = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * args.tile;
  const float* logits = args.logits + row * args.stride;
  const uint64_t* from = args.keys_in != nullptr ? args.keys_in + row * args.n : nullptr;
  const int end = args.n < first + args.tile ? args.n : first + args.tile;
  uint64_t largest = 0;
  // The previous launch left lists of kWarp sorted keys.
  for (int at = first + thread; at - lane < end; at += kTopThreads) {
    uint64_t key = 0;
    if (at < end) key = from != nullptr ? from[at] : key_in_set(args, row, logits, at);
    if (from == nullptr) key = sort_warp(key, lane);
    largest = merge_warp(largest, key, lane);
  }
  lists[thread] = largest;
  __syncthreads();
  if (thread >= kWarp) return;
#pragma unroll 1
  for (int warp = 1; warp < kWarps; ++warp) {
    largest = merge_warp(largest, lists[warp * kWarp + lane], lane);
  }
  if (args.keys_out != nullptr) {
    args.keys_out[(row * gridDim.x + blockIdx.x) * kWarp + lane] = largest;
    return;
  }
  const uint32_t low = __shfl_sync(kFullWarp, static_cast<uint32_t>(largest), 0);
  const uint32_t high = __shfl_sync(kFullWarp, static_cast<uint32_t>(largest >> 32U), 0);
  const uint64_t best = static_cast<uint64_t>(high) << 32U | low;
  if (lane < args.keep) args.top[row * args.keep + lane] = top_of(largest, best, lane, logits);
}

}  // namespace chimere::kernels::cuda
