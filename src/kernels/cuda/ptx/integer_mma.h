// Matrix products of signed bytes on tensor cores: D[16, 8] = A[16, K] B[K, 8] + C in int32, exact.
// With group = lane / 4 and part = lane % 4, a lane holds
//   a[0], a[1]: rows group, group + 8 of A, columns 4 part .. 4 part + 3
//   a[2], a[3]: (K = 32 only) the same rows, columns 16 + 4 part .. 16 + 4 part + 3
//   b[0], b[1]: column `group` of B, rows 4 part .. and (K = 32 only) 16 + 4 part ..
//   c[0], c[1]: row group, columns 2 part, 2 part + 1;   c[2], c[3]: row group + 8
// PTX ISA, "Matrix Fragments for mma.m16n8k16 / mma.m16n8k32".
#ifndef CHIMERE_KERNELS_CUDA_PTX_INTEGER_MMA_H_
#define CHIMERE_KERNELS_CUDA_PTX_INTEGER_MMA_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

#ifdef __CUDACC__

__device__ __forceinline__ void mma_k32(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                        int32_t (&c)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same with K = 16. a and b are halves of a fragment of K = 32.
__device__ __forceinline__ void mma_k16(uint32_t a0, uint32_t a1, uint32_t b, int32_t (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

#else

/// What a lane passes to the others.
struct IntegerFragments {
  uint32_t a[2];
  uint32_t b;
};

inline void mma_k16(uint32_t a0, uint32_t a1, uint32_t b, int32_t (&c)[4]) {
  const IntegerFragments mine = {{a0, a1}, b};
  const emulator::WarpSlots slots = emulator::warp_exchange(kFullWarp, &mine, sizeof mine);
  auto of_lane = [&](uint32_t lane) {
    IntegerFragments f;
    std::memcpy(&f, slots.of_lane(lane), sizeof f);
    return f;
  };
  const uint32_t group = emulator::lane() / 4;
  const uint32_t part = emulator::lane() % 4;
  for (uint32_t p = 0; p < 4; ++p) {
    const IntegerFragments row = of_lane(4 * group + p);
    for (uint32_t column = 0; column < 2; ++column) {
      const uint32_t bytes = of_lane(4 * (2 * part + column) + p).b;
      for (uint32_t half = 0; half < 2; ++half) {
        int32_t& sum = c[2 * half + column];
        sum = __dp4a(static_cast<int>(row.a[half]), static_cast<int>(bytes), sum);
      }
    }
  }
}

inline void mma_k32(const uint32_t (&a)[4], const uint32_t (&b)[2], int32_t (&c)[4]) {
  mma_k16(a[0], a[1], b[0], c);
  mma_k16(a[2], a[3], b[1], c);
}

#endif

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_INTEGER_MMA_H_
