// Sizes of the tiles of chunk_tile.h, for host and device.
#ifndef CHIMERE_KERNELS_CUDA_CHUNK_TILE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_CHUNK_TILE_ARGS_H_

#include <cstdint>

namespace chimere::kernels::cuda {

inline constexpr int kChunkThreads = 256;
/// Rows of weights of a tile.
inline constexpr int kChunkOutputs = 128;
/// Bytes from one row of 64 in shared memory to the next: eight rows' words lie in different banks.
inline constexpr int kChunkStride = 80;

struct alignas(8) ScaleAndMinimum {
  float x;
  float y;
};

/// What 64 elements of a tile look like in shared memory. The indices of groups are those within
/// the 64 elements, two of 32 or four of 16.
template <int kColumns>
struct alignas(16) ChunkStage {
  uint8_t w[kChunkOutputs * kChunkStride];
  uint8_t x[kColumns * kChunkStride];
  ScaleAndMinimum scales[4][kChunkOutputs];
  float d[2][kColumns];     ///< of the activations' blocks
  float sums[4][kColumns];  ///< d times the sum of a group's activations
};

/// Dynamic shared memory of a block, without codebooks, which come last.
template <int kColumns>
constexpr int chunk_shared_bytes() {
  return 2 * static_cast<int>(sizeof(ChunkStage<kColumns>));
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CHUNK_TILE_ARGS_H_
