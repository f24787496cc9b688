// Activations rounded to int8 with a scale per block (docs/numerics.md, rule 3), in device memory,
// and the arguments of rounding.cu.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_
#define CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// Scale and sums of a block of 32 activations.
struct alignas(8) RoundedBlock {
  float d;
  int16_t sums[2];  ///< of its first and its second 16 integers
};

/// Rows of a tile: columns of a tensor-core operand.
inline constexpr int kRoundedTile = 8;

/// Rows of n activations, contiguous; n is a multiple of 32. If tile_q is not null, the same data
/// also in tiles: a warp that multiplies by a block of a tile's rows reads consecutive bytes.
struct RoundedRows {
  int8_t* q = nullptr;                  ///< [rows, n], aligned to 16 bytes
  RoundedBlock* blocks = nullptr;       ///< [rows, n / 32]
  int8_t* tile_q = nullptr;             ///< [ceil(rows / 8), n / 32, 8, 32]
  RoundedBlock* tile_blocks = nullptr;  ///< [ceil(rows / 8), n / 32, 8], aligned to 16 bytes
};

inline constexpr int kRoundThreads = 256;

/// One warp per block of 32.
struct RoundRowsArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  RoundedRows rounded;
  int32_t rows;
  int32_t n;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_
