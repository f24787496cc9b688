// Arguments of moe_tile.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_TILE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_MOE_TILE_ARGS_H_

#include "kernels/cuda/moe_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kMoeTileThreads = 256;
/// Blocks per multiprocessor: while one multiplies, the other's weights arrive.
inline constexpr int kMoeTileBlocks = 2;
/// Weight rows of a unit of work, those of a tensor core's operand.
inline constexpr int kMoeTileOutputs = 16;
/// Most units whose weights a block has in shared memory.
inline constexpr int kMoeTileStages = 2;
inline constexpr int kMoeTileCombineThreads = 256;

/// Whether the kernels take matrices of this type: quantised, and without a codebook.
constexpr bool moe_tile_takes(DType t) {
  switch (t) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
    case DType::kMXFP4:
    case DType::kIQ3_S_UNPACKED:
      return true;
    default:
      return false;
  }
}

/// Slots as in MoeDecodeArgs, sorted by expert; a slot's index in that order is its position. A
/// tile has up to kRoundedTile slots of one expert.
///
/// moe_tile_map (one block; only with more than one row) fills slot_at, tiles and n_routed.
/// moe_tile_products: any number of blocks, which share the work evenly. Dynamic shared memory:
/// `stages` of stage_bytes for weights, then from x_at the tile's rows of x or h. moe_tile_combine:
/// grid x elements of y, y rows.
struct MoeTileArgs {
  ExpertTableArgs table;
  RoundedRows x;             ///< [.., n_embd]
  const int32_t* ids;        ///< [rows, n_used]; -1 from the first unused rank on
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  RoundedRows h;      ///< [slots, h_width]
  float* out;         ///< [slots, n_embd]
  int32_t* slot_at;   ///< [slots], by position
  MoeTile* tiles;     ///< routed experts' tiles, then the shared one's; nullptr: one row, whose
                      ///< slots are the tiles
  int32_t* n_routed;  ///< tiles of routed experts
  const int32_t* row_ids;
  Activation activation;
  float scale;   ///< of a row's sum over all experts
  int32_t rows;  ///< in the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
  int32_t shared_cost;  ///< of a unit of the shared expert's down product, relative to a routed one
  int32_t stages;       ///< units whose weights are in shared memory, at most kMoeTileStages
  int32_t stage_bytes;
  int32_t x_at;
  int32_t down;    ///< moe_tile_products: 0: h from x, 1: out from h
  int32_t biased;  ///< 1: the routed experts' down products have biases
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_TILE_ARGS_H_
