// Arithmetic on pairs of f16 in a word, each result rounded once to nearest even (PTX ISA, f16x2).
#ifndef CHIMERE_KERNELS_CUDA_PTX_HALF_PAIR_H_
#define CHIMERE_KERNELS_CUDA_PTX_HALF_PAIR_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/float16.h"

namespace chimere::kernels::cuda {

#ifndef __CUDACC__

/// a * b + c. Products of f16 and their sums with a third are exact in f64. The conversion to f32
/// rounds to odd, so that the second rounding, to f16, gives the correctly rounded result.
inline uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) {
  const double exact = double{widen_f16(a)} * double{widen_f16(b)} + double{widen_f16(c)};
  auto f = static_cast<float>(exact);
  if (std::isfinite(f) && double{f} != exact) {
    uint32_t bits = std::bit_cast<uint32_t>(f);
    if (std::fabs(double{f}) > std::fabs(exact)) --bits;  // towards zero
    f = std::bit_cast<float>(bits | 1U);
  }
  return round_f16(f);
}

#endif

/// a * b + c
__device__ __forceinline__ uint32_t half_pair_fma(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
  uint32_t r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  auto low = [](uint32_t w) { return static_cast<uint16_t>(w); };
  auto high = [](uint32_t w) { return static_cast<uint16_t>(w >> 16U); };
  return half_fma(low(a), low(b), low(c)) |
         static_cast<uint32_t>(half_fma(high(a), high(b), high(c))) << 16U;
#endif
}

/// a - b
__device__ __forceinline__ uint32_t half_pair_less(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  uint32_t r;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return half_pair_fma(a, 0x3C003C00U, b ^ 0x80008000U);
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_HALF_PAIR_H_
