// Arguments of moe_rows.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_

#include "kernels/cuda/moe_args.h"

namespace chimere::kernels::cuda {

/// Most stages of a warp's ring.
inline constexpr int kMoeRowsStages = 8;

inline constexpr int kMoeRowsGateUpThreads = 256;
/// Blocks of moe_rows_gate_up per multiprocessor.
inline constexpr int kMoeRowsGateUpBlocks = 2;
/// Elements of h in a unit: a warp's copies of as many rows of gate and of up.
inline constexpr int kMoeRowsHidden = 2;

inline constexpr int kMoeRowsDownThreads = 256;
/// Blocks of moe_rows_down per multiprocessor.
inline constexpr int kMoeRowsDownBlocks = 2;
/// Elements of y in an item of moe_rows_down.
inline constexpr int kMoeRowsDownTile = 32;
/// Elements of y in a unit of moe_rows_down, a warp's copies of as many rows of an expert: the
/// larger number for routed experts if it fits, the smaller one for the shared expert, so that all
/// warps take part.
inline constexpr int kMoeRowsDownOutputs = 16;
inline constexpr int kMoeRowsDownFewerOutputs = 8;
static_assert(kMoeRowsDownTile == 2 * kMoeRowsDownOutputs);

/// Bytes of a row of `blocks` rounded blocks in shared memory: the first 16 integers of each block,
/// the second 16, then RoundedBlock. So lanes that read neighbouring blocks use all banks. The
/// space between the halves does the same for groups of 16.
constexpr int moe_rows_half_bytes(int blocks) { return 16 * blocks + 64; }
constexpr int moe_rows_x_bytes(int blocks) {
  return (moe_rows_half_bytes(blocks) + 16 * blocks + 8 * blocks + 15) / 16 * 16;
}

/// What differs between the routed experts and the shared one.
struct MoeRowsKind {
  CodebookPlace codebook;
  int32_t codebook_at;  ///< offset in dynamic shared memory
  int32_t items;        ///< moe_rows_gate_up only
  int32_t tiles;        ///< moe_rows_gate_up only: items per slot
  int32_t outputs;      ///< moe_rows_down only: in a unit
  int32_t stages_at;    ///< offset of the first warp's ring
  int32_t stages;       ///< of a warp, at most kMoeRowsStages
  int32_t stage_bytes;
  /// 1: the bytes of a unit's copies are multiples of 16. Packed matrices are aligned to 16.
  int32_t bulk;
};

/// Slots as in MoeDecodeArgs. An item of moe_rows_gate_up is a tile of kMoeHiddenTile elements of a
/// slot's h; blocks 0 .. shared_blocks - 1 take those of the shared expert. An item of
/// moe_rows_down is a tile of kMoeRowsDownTile elements of a row's y; a block has items of one row.
/// Blocks stay for the whole launch and share the items evenly, each taking consecutive ones.
///
/// Dynamic shared memory: codebooks; from outs_at on (moe_rows_down) the experts' outputs,
/// [items of the block, ranks, kMoeRowsDownTile] floats; from x_at on x_bytes (moe_rows_x_bytes())
/// for each row of x of the block's items, or of h of every slot of the row; a ring for every warp
/// and kind of expert.
struct MoeRowsArgs {
  ExpertTableArgs table;
  RoundedRows x;             ///< [.., n_embd]
  const int32_t* ids;        ///< [rows, n_used]; -1 from the first unused rank on
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  RoundedRows h;  ///< [slots, h_width]
  const int32_t* row_ids;
  const uint32_t* codebook;
  MoeRowsKind routed;
  MoeRowsKind shared;
  Activation activation;
  float scale;             ///< of a row's sum over all experts
  int32_t shared_blocks;   ///< of moe_rows_gate_up
  int32_t blocks_per_row;  ///< of moe_rows_down
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
  int32_t outs_at;
  int32_t x_at;
  int32_t x_bytes;
  int32_t biased;  ///< 1: the routed experts' down products have biases
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_
