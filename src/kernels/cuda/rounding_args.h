// Rounded activations in device memory (docs/numerics.md, rule 3), and the arguments of
// rounding.cu.
#ifndef CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_
#define CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

/// What is kept of a block of 32 activations beside its integers.
struct alignas(8) RoundedBlock {
  float d;
  int16_t sums[2];  ///< of its first and its second 16 integers
};

/// Rows of a tile: the columns of a tensor core's operand.
inline constexpr int kRoundedTile = 8;

/// Rows of n activations, one after the other without gaps; n is a multiple of 32. The same once
/// more in tiles, if there is such memory: a warp that multiplies by a block of a tile's rows reads
/// neighbouring bytes.
struct RoundedRows {
  int8_t* q = nullptr;                  ///< [rows, n], aligned to 16 bytes
  RoundedBlock* blocks = nullptr;       ///< [rows, n / 32]
  int8_t* tile_q = nullptr;             ///< [rows / 8, n / 32, 8, 32], of whole tiles
  RoundedBlock* tile_blocks = nullptr;  ///< [rows / 8, n / 32, 8], aligned to 16 bytes
};

inline constexpr int kRoundThreads = 256;

/// A warp for each block of 32.
struct RoundRowsArgs {
  const float* x;  ///< [rows, n]
  int64_t x_stride;
  RoundedRows rounded;
  int32_t rows;
  int32_t n;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROUNDING_ARGS_H_
