// Device code: asynchronous copies of packed rows and codebooks to shared memory.
#ifndef CHIMERE_KERNELS_CUDA_COPY_ROWS_H_
#define CHIMERE_KERNELS_CUDA_COPY_ROWS_H_

#include "kernels/cuda/language.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/ptx/async_copy.h"

namespace chimere::kernels::cuda {

/// Starts copying consecutive packed rows to shared memory. All lanes of one warp. Both addresses
/// and `bytes` are aligned to the rows' largest unit (packed_layout.h).
__device__ __forceinline__ void copy_rows(uint8_t* to, const uint8_t* from, int bytes) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto misaligned =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) | static_cast<uint32_t>(bytes);
  if (misaligned % 16 == 0) {
#pragma unroll 1
    for (int i = 16 * lane; i < bytes; i += 16 * kWarp) copy_async<16>(to + i, from + i);
  } else if (misaligned % 8 == 0) {
#pragma unroll 1
    for (int i = 8 * lane; i < bytes; i += 8 * kWarp) copy_async<8>(to + i, from + i);
  } else {
#pragma unroll 1
    for (int i = 4 * lane; i < bytes; i += 4 * kWarp) copy_async<4>(to + i, from + i);
  }
}

/// Starts copying a codebook to shared memory. All threads of the block.
__device__ __forceinline__ void copy_codebook(const CodebookPlace& place, const uint32_t* all,
                                              uint32_t* shared) {
#pragma unroll 1
  for (int i = 4 * static_cast<int>(threadIdx.x); i < place.words;
       i += 4 * static_cast<int>(blockDim.x)) {
    copy_async<16>(reinterpret_cast<uint8_t*>(shared + i),
                   reinterpret_cast<const uint8_t*>(all + place.begin + i));
  }
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_COPY_ROWS_H_
