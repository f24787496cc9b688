// Reads of weights that a launch reads once: L2 replaces their lines first (PTX ISA,
// createpolicy; compute capability 8.0 and later). So what every layer reads again stays there: the
// kernels' code, activations, tables.
#ifndef CHIMERE_KERNELS_CUDA_PTX_STREAM_LOAD_H_
#define CHIMERE_KERNELS_CUDA_PTX_STREAM_LOAD_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

#ifdef __CUDACC__

/// The policy of lines that are replaced first.
__device__ __forceinline__ uint64_t evict_first() {
  uint64_t policy = 0;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Loads a word that no kernel of the step writes.
__device__ __forceinline__ uint8_t load_stream(const uint8_t* p) {
  uint32_t v = 0;
  asm("ld.global.nc.L2::cache_hint.u8 %0, [%1], %2;" : "=r"(v) : "l"(p), "l"(evict_first()));
  return static_cast<uint8_t>(v);
}

__device__ __forceinline__ uint16_t load_stream(const uint16_t* p) {
  uint16_t v = 0;
  asm("ld.global.nc.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(v) : "l"(p), "l"(evict_first()));
  return v;
}

__device__ __forceinline__ uint32_t load_stream(const uint32_t* p) {
  uint32_t v = 0;
  asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), "l"(evict_first()));
  return v;
}

__device__ __forceinline__ uint2 load_stream(const uint2* p) {
  uint2 v = {};
  asm("ld.global.nc.L2::cache_hint.v2.u32 {%0, %1}, [%2], %3;"
      : "=r"(v.x), "=r"(v.y)
      : "l"(p), "l"(evict_first()));
  return v;
}

__device__ __forceinline__ uint4 load_stream(const uint4* p) {
  uint4 v = {};
  asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(p), "l"(evict_first()));
  return v;
}

#else

template <class Word>
Word load_stream(const Word* p) {
  return *p;
}

#endif

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_STREAM_LOAD_H_
