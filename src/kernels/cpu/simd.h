// The lanes of the instruction set that a file is being compiled for. The files of cpu/vector are
// compiled once per instruction set: CHIMERE_ISA is its namespace, CHIMERE_ISA_LANES the header of
// its F32x16.
//
// Such files must not define or instantiate anything with external linkage outside that namespace
// (not even inline library functions): the linker could use it on processors without the
// instructions.
#ifndef CHIMERE_KERNELS_CPU_SIMD_H_
#define CHIMERE_KERNELS_CPU_SIMD_H_

#include CHIMERE_ISA_LANES

namespace chimere::kernels::cpu::CHIMERE_ISA {

inline constexpr int kLanes = 16;

/// Rule 2 for x · y, n elements; a tail is padded with zeros.
CHIMERE_INLINE float dot16(const float* x, const float* y, int64_t n) {
  F32x16 s = F32x16::set(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) s = fma(F32x16::load(x + i), F32x16::load(y + i), s);
  if (i < n) {
    float tail_x[kLanes] = {};
    float tail_y[kLanes] = {};
    for (int64_t j = i; j < n; ++j) {
      tail_x[j - i] = x[j];
      tail_y[j - i] = y[j];
    }
    s = fma(F32x16::load(tail_x), F32x16::load(tail_y), s);
  }
  return tree_sum(s);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_SIMD_H_
