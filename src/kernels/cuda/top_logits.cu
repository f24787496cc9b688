// Logits that are listed, and the largest of the others. Keys order logits and ids at once, so that
// a sort of numbers is all there is: what comes out does not depend on how the vocabulary is cut
// into tiles.
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

/// keys[0 .. n) in falling order, n a power of two, by a block.
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

/// The largest of keys[0 .. n) in keys[0], n a power of two, by a block.
__device__ __forceinline__ void find_largest(uint64_t* keys, int n, int thread) {
  for (int half = n / 2; half > 0; half /= 2) {
    for (int i = thread; i < half; i += kTopThreads) {
      if (keys[i] < keys[i + half]) keys[i] = keys[i + half];
    }
    __syncthreads();
  }
}

}  // namespace

/// No token is listed twice in a row, so that threads do not meet.
CHIMERE_KERNEL(take_logits, kTopThreads, TakeLogitsArgs, args) {
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
    args.listed[row * args.count + i] = value;
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
    if (at < args.n) key = from != nullptr ? from[at] : key_of(logits[at], at);
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
  const bool good = keys[0] != ~uint64_t{0};
  for (int i = thread; i < args.keep; i += kTopThreads) {
    const uint64_t key = keys[i];
    TopLogitArgs out = {__uint_as_float(kInfinityBits | 0x80000000U), -1};
    if (good && key != 0) {
      out.id = static_cast<int32_t>(~static_cast<uint32_t>(key));
      out.value = logits[out.id];
    }
    if (!good && i == 0) out.value = __uint_as_float(kInfinityBits);
    top[i] = out;
  }
}

}  // namespace chimere::kernels::cuda
