// Sizes of the tiles of chunk_tile.h, for host and device.
#ifndef CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kTileThreads = 256;
/// Rows of weights of a tile, and most rows of activations.
inline constexpr int kTileOutputs = 128;
inline constexpr int kTileRows = 128;
/// Elements of a stage.
inline constexpr int kTileDepth = 64;

/// 64 elements of a tile in shared memory, f16. The eight units of 16 bytes of a row lie in an
/// order of its own (tile_unit()), so that eight rows' units lie in different banks.
struct alignas(1024) TileStage {
  uint16_t w[kTileOutputs * kTileDepth];
  uint16_t x[kTileRows * kTileDepth];
};

/// Dynamic shared memory of a block, without codebooks, which come last: two stages, behind what is
/// missing to the next multiple of their alignment.
inline constexpr int kTileSharedBytes = 2 * static_cast<int>(sizeof(TileStage)) + 1024;

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_
