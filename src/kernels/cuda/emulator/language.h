// CUDA C++ for an ordinary compiler: kernels/cuda/language.h includes this outside nvcc. Names are
// CUDA's, in the global namespace, so only .cu files include this header.
#ifndef CHIMERE_KERNELS_CUDA_EMULATOR_LANGUAGE_H_
#define CHIMERE_KERNELS_CUDA_EMULATOR_LANGUAGE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/emulator/block.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __constant__ static const
#define __shared__ static
#define __align__(n) alignas(n)
#define __launch_bounds__(...)

#define CHIMERE_KERNEL(name, max_threads, Args, args)                                   \
  static void name(const Args& args);                                                   \
  static const ::chimere::kernels::cuda::emulator::Registration registration_of_##name( \
      #name, max_threads, sizeof(Args),                                                 \
      [](const void* block_args) { name(*static_cast<const Args*>(block_args)); });     \
  static void name(const Args& args)

#define CHIMERE_KERNEL_OF_BLOCKS(name, max_threads, blocks, Args, args) \
  CHIMERE_KERNEL(name, max_threads, Args, args)

#define CHIMERE_DYNAMIC_SHARED(T, name) \
  T* const name = reinterpret_cast<T*>(::chimere::kernels::cuda::emulator::dynamic_shared())

#define threadIdx (::chimere::kernels::cuda::emulator::current_thread().index)
#define blockIdx (::chimere::kernels::cuda::emulator::current_thread().block)
#define blockDim (::chimere::kernels::cuda::emulator::current_thread().block_size)
#define gridDim (::chimere::kernels::cuda::emulator::current_thread().grid_size)

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): CUDA's names

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

using std::max;
using std::min;

inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
/// Only three bits of each selector nibble count.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t both = (static_cast<uint64_t>(b) << 32U) | a;
  unsigned r = 0;
  for (unsigned i = 0; i < 32; i += 8) {
    r |= static_cast<unsigned>((both >> (8 * ((selector >> (i / 2)) & 7U))) & 0xFFU) << i;
  }
  return r;
}
/// c + the dot product of four signed bytes.
inline int __dp4a(int a, int b, int c) {
  for (unsigned i = 0; i < 32; i += 8) {
    c += static_cast<int8_t>(static_cast<unsigned>(a) >> i) *
         static_cast<int8_t>(static_cast<unsigned>(b) >> i);
  }
  return c;
}

template <typename T>
T __ldg(const T* p) {
  return *p;
}
inline void __threadfence() {}

// One thread of one block runs at a time, so plain operations are atomic.
template <typename T, typename V>
T atomicAdd(T* p, V v) {
  const T old = *p;
  *p = old + static_cast<T>(v);
  return old;
}
template <typename T, typename V>
T atomicMax(T* p, V v) {
  const T old = *p;
  *p = std::max(old, static_cast<T>(v));
  return old;
}
template <typename T, typename V>
T atomicExch(T* p, V v) {
  const T old = *p;
  *p = static_cast<T>(v);
  return old;
}

inline void __syncthreads() { ::chimere::kernels::cuda::emulator::block_barrier(); }
inline void __syncwarp(unsigned lanes = 0xFFFFFFFFU) {
  ::chimere::kernels::cuda::emulator::warp_exchange(lanes, nullptr, 0);
}

namespace chimere::kernels::cuda::emulator {

/// `v` of lane `from` of the warp, or the calling lane's own if `from` takes no part.
template <typename T>
T shuffle(unsigned lanes, T v, unsigned from) {
  const WarpSlots slots = warp_exchange(lanes, &v, sizeof(T));
  if (from >= 32 || ((lanes >> from) & 1U) == 0) return v;
  T other;
  std::memcpy(&other, slots.of_lane(from), sizeof(T));
  return other;
}

inline unsigned lane() { return current_thread().lane; }

}  // namespace chimere::kernels::cuda::emulator

template <typename T>
T __shfl_sync(unsigned lanes, T v, int from, int width = 32) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const auto mask = static_cast<unsigned>(width - 1);
  const unsigned base = emulator::lane() & ~mask;
  return emulator::shuffle(lanes, v, base | (static_cast<unsigned>(from) & mask));
}
template <typename T>
T __shfl_xor_sync(unsigned lanes, T v, int bits, int = 32) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  return emulator::shuffle(lanes, v, emulator::lane() ^ static_cast<unsigned>(bits));
}
template <typename T>
T __shfl_down_sync(unsigned lanes, T v, unsigned distance, int width = 32) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const unsigned at = emulator::lane() & static_cast<unsigned>(width - 1);
  const bool inside = at + distance < static_cast<unsigned>(width);
  return emulator::shuffle(lanes, v, inside ? emulator::lane() + distance : emulator::lane());
}
template <typename T>
T __shfl_up_sync(unsigned lanes, T v, unsigned distance, int width = 32) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const unsigned at = emulator::lane() & static_cast<unsigned>(width - 1);
  return emulator::shuffle(lanes, v,
                           at >= distance ? emulator::lane() - distance : emulator::lane());
}
inline unsigned __ballot_sync(unsigned lanes, bool predicate) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const uint8_t mine = predicate ? 1 : 0;
  const emulator::WarpSlots slots = emulator::warp_exchange(lanes, &mine, 1);
  unsigned votes = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if (((lanes >> i) & 1U) != 0 && *slots.of_lane(i) != 0) votes |= 1U << i;
  }
  return votes;
}
inline unsigned __reduce_max_sync(unsigned lanes, unsigned v) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const emulator::WarpSlots slots = emulator::warp_exchange(lanes, &v, sizeof v);
  unsigned most = v;
  for (unsigned i = 0; i < 32; ++i) {
    unsigned other = 0;
    if (((lanes >> i) & 1U) == 0) continue;
    std::memcpy(&other, slots.of_lane(i), sizeof other);
    most = std::max(most, other);
  }
  return most;
}
inline unsigned __reduce_min_sync(unsigned lanes, unsigned v) {
  return ~__reduce_max_sync(lanes, ~v);
}
inline int __reduce_add_sync(unsigned lanes, int v) {
  namespace emulator = ::chimere::kernels::cuda::emulator;
  const emulator::WarpSlots slots = emulator::warp_exchange(lanes, &v, sizeof v);
  unsigned sum = 0;
  for (unsigned i = 0; i < 32; ++i) {
    unsigned other = 0;
    if (((lanes >> i) & 1U) == 0) continue;
    std::memcpy(&other, slots.of_lane(i), sizeof other);
    sum += other;
  }
  return static_cast<int>(sum);
}
inline bool __any_sync(unsigned lanes, bool predicate) {
  return __ballot_sync(lanes, predicate) != 0;
}
inline bool __all_sync(unsigned lanes, bool predicate) {
  return __ballot_sync(lanes, predicate) == lanes;
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // CHIMERE_KERNELS_CUDA_EMULATOR_LANGUAGE_H_
