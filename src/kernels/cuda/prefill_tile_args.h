// Sizes of the tiles of prefill_tile.h, for host and device.
#ifndef CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kTileThreads = 256;
/// Weight rows of a tile, and most activation rows.
inline constexpr int kTileOutputs = 128;
inline constexpr int kTileRows = 128;
/// Elements of a pipeline stage.
inline constexpr int kTileDepth = 64;

/// 64 elements of a tile in shared memory, as f16. The eight 16-byte units of a row are permuted
/// (tile_unit()), so that units of eight rows lie in different banks.
struct alignas(1024) TileStage {
  uint16_t w[kTileOutputs * kTileDepth];
  uint16_t x[kTileRows * kTileDepth];
};

/// Dynamic shared memory of a block, without codebooks, which follow it: two stages, and padding to
/// their alignment.
inline constexpr int kTileSharedBytes = 2 * static_cast<int>(sizeof(TileStage)) + 1024;

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_PREFILL_TILE_ARGS_H_
