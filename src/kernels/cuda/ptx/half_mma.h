// Matrix products of f16 on tensor cores: D[16, 8] = A[16, 16] B[16, 8] + C in f32. With group =
// lane / 4 and part = lane % 4, a lane holds, two f16 per word with the lower index in the lower
// half:
//   a[0], a[1]: rows group, group + 8 of A, columns 2 part, 2 part + 1
//   a[2], a[3]: the same rows, columns 8 + 2 part, 9 + 2 part
//   b[0], b[1]: column `group` of B, rows 2 part, 2 part + 1 and 8 + 2 part, 9 + 2 part
//   c[0], c[1]: row group, columns 2 part, 2 part + 1;   c[2], c[3]: row group + 8
// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". An element of D depends
// only on its row of A and its column of B. GPUs add the 16 products in their own order, the same
// for every element, so results differ from the emulator's by rounding errors.
#ifndef CHIMERE_KERNELS_CUDA_PTX_HALF_MMA_H_
#define CHIMERE_KERNELS_CUDA_PTX_HALF_MMA_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/float16.h"

namespace chimere::kernels::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ void mma_f16(const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                        float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#else

/// What a lane passes to the others.
struct HalfFragments {
  uint32_t a[4];
  uint32_t b[2];
};

inline void mma_f16(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
  const HalfFragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const emulator::WarpSlots slots = emulator::warp_exchange(kFullWarp, &mine, sizeof mine);
  const uint32_t group = emulator::lane() / 4;
  const uint32_t part = emulator::lane() % 4;
  auto half = [](uint32_t word, uint32_t i) {
    return widen_f16(static_cast<uint16_t>(word >> (16 * i)));
  };
  for (uint32_t p = 0; p < 4; ++p) {
    HalfFragments row;
    std::memcpy(&row, slots.of_lane(4 * group + p), sizeof row);
    for (uint32_t column = 0; column < 2; ++column) {
      HalfFragments from;
      std::memcpy(&from, slots.of_lane(4 * (2 * part + column) + p), sizeof from);
      for (uint32_t k = 0; k < 4; ++k) {
        const float b = half(from.b[k / 2], k % 2);
        c[column] += half(row.a[k / 2 * 2], k % 2) * b;
        c[2 + column] += half(row.a[k / 2 * 2 + 1], k % 2) * b;
      }
    }
  }
}

#endif

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_HALF_MMA_H_
