// The orthonormal Walsh-Hadamard transform of a head (docs/numerics.md, "Rotated heads").
#ifndef CHIMERE_KERNELS_CPU_VECTOR_HADAMARD_H_
#define CHIMERE_KERNELS_CPU_VECTOR_HADAMARD_H_

#include "kernels/cpu/simd.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {

/// x [n], n a multiple of 16, in place.
CHIMERE_INLINE void rotate_head(float* x, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const F32x16 v = F32x16::load(x + i);
    v.template butterfly<1>()
        .template butterfly<2>()
        .template butterfly<4>()
        .template butterfly<8>()
        .store(x + i);
  }
  const int block = n & -n;
  for (int h = kLanes; h < block; h *= 2) {
    for (int i = 0; i < n; i += 2 * h) {
      for (int j = i; j < i + h; j += kLanes) {
        const F32x16 a = F32x16::load(x + j);
        const F32x16 b = F32x16::load(x + j + h);
        (a + b).store(x + j);
        (a - b).store(x + j + h);
      }
    }
  }
  const F32x16 scale = F32x16::set(1.0F / __builtin_sqrtf(static_cast<float>(block)));
  for (int i = 0; i < n; i += kLanes) (F32x16::load(x + i) * scale).store(x + i);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA

#endif  // CHIMERE_KERNELS_CPU_VECTOR_HADAMARD_H_
