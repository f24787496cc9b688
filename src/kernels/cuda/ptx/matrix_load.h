// Loads fragments of matrix products from shared memory (PTX ISA, ldmatrix).
#ifndef CHIMERE_KERNELS_CUDA_PTX_MATRIX_LOAD_H_
#define CHIMERE_KERNELS_CUDA_PTX_MATRIX_LOAD_H_

#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Loads four matrices of 8 rows of 16 bytes. Lane 8 i + j passes the address of row j of matrix i,
/// in shared memory and aligned to 16 bytes. words[i] of lane l is word l % 4 of row l / 4 of
/// matrix i.
__device__ __forceinline__ void load_matrices(const void* row, uint32_t (&words)[4]) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
#else
  const emulator::WarpSlots slots = emulator::warp_exchange(kFullWarp, &row, sizeof row);
  const uint32_t lane = emulator::lane();
  for (uint32_t i = 0; i < 4; ++i) {
    const uint8_t* from;
    std::memcpy(&from, slots.of_lane(8 * i + lane / 4), sizeof from);
    std::memcpy(&words[i], from + 4 * static_cast<size_t>(lane % 4), sizeof words[i]);
  }
#endif
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PTX_MATRIX_LOAD_H_
