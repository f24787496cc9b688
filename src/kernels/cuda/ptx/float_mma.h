// Matrix products of tf32 on tensor cores: D[16, 8] = A[16, 8] B[8, 8] + C in f32; the lowest 13
// bits of A's and B's elements are ignored. With group = lane / 4 and part = lane % 4, a lane holds
//   a[0], a[1]: rows group, group + 8 of A, column part
//   a[2], a[3]: the same rows, column part + 4
//   b[0], b[1]: column `group` of B, rows part and part + 4
//   c: as in half_mma.h
// PTX ISA, "Matrix Fragments for mma.m16n8k8". As in half_mma.h, the order of additions is the
// GPU's own, the same for every element.
#ifndef CHIMERE_KERNELS_CUDA_PTX_FLOAT_MMA_H_
#define CHIMERE_KERNELS_CUDA_PTX_FLOAT_MMA_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ void mma_tf32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                         float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

/// What a lane passes to the others.
struct FloatFragments {
  uint32_t a[4];
  uint32_t b[2];
};

inline void mma_tf32(const uint32_t (&a)[4], const uint32_t (&b)[2], float (&c)[4]) {
  const FloatFragments mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const emulator::WarpSlots slots = emulator::warp_exchange(kFullWarp, &mine, sizeof mine);
  const uint32_t group = emulator::lane() / 4;
  const uint32_t part = emulator::lane() % 4;
  auto value = [](uint32_t bits) { return __uint_as_float(bits & ~0x1FFFU); };
  for (uint32_t k = 0; k < 8; ++k) {
    FloatFragments row;
    std::memcpy(&row, slots.of_lane(4 * group + k % 4), sizeof row);
    for (uint32_t column = 0; column < 2; ++column) {
      FloatFragments from;
      std::memcpy(&from, slots.of_lane(4 * (2 * part + column) + k % 4), sizeof from);
      const float b_value = value(from.b[k / 4]);
      c[column] += value(row.a[k / 4 * 2]) * b_value;
      c[2 + column] += value(row.a[k / 4 * 2 + 1]) * b_value;
    }
  }
}

#endif

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_FLOAT_MMA_H_
