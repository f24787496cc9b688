// Arguments of moe_rows.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_

#include "kernels/cuda/moe_args.h"

namespace chimere::kernels::cuda {

/// A block has this many warps where rings of two stages for all of them fit beside the rest, else
/// half as many.
inline constexpr int kMoeRowsMostWarps = 16;
inline constexpr int kMoeRowsMostThreads = 32 * kMoeRowsMostWarps;
/// At least the declared shared memory of a block.
inline constexpr int kMoeRowsDeclaredBytes = 1280;
/// Elements of h in a unit of gate and up: a warp's copies of as many rows of each.
inline constexpr int kMoeRowsHidden = 2;
/// Units of a warp in an item: those of a block's `warps` warps are a tile of h.
constexpr int moe_rows_units(int warps) { return kMoeHiddenTile / (kMoeRowsHidden * warps); }
/// Most stages of a warp's ring. Copies start at most one item and one unit ahead: the item after
/// these is not yet claimed.
constexpr int moe_rows_most_stages(int warps) { return moe_rows_units(warps) + 1; }
inline constexpr int kMoeRowsMostStages = moe_rows_most_stages(kMoeRowsMostWarps / 2);
/// Elements of y that a warp computes together, for every expert of the row.
inline constexpr int kMoeRowsOutputs = 4;
/// Times kMoeRowsOutputs elements of y: a warp computes as many with the routed experts, then with
/// the shared one.
inline constexpr int kMoeRowsGroups = 4;

/// Bytes of a row of `blocks` rounded blocks in shared memory: the first 16 integers of each block,
/// the second 16, then RoundedBlock. So lanes that read neighbouring blocks use all banks. The
/// space between the halves does the same for groups of 16.
constexpr int moe_rows_half_bytes(int blocks) { return 16 * blocks + 64; }
constexpr int moe_rows_x_bytes(int blocks) {
  return (moe_rows_half_bytes(blocks) + 16 * blocks + 8 * blocks + 15) / 16 * 16;
}

/// Words of MoeRowsArgs::counters: claimed items, blocks that have read all counters, then for each
/// row its finished items.
inline constexpr int kMoeRowsClaimed = 0;
inline constexpr int kMoeRowsBlocksDone = 1;
inline constexpr int kMoeRowsFinished = 2;

/// A slot in use, in shared memory.
struct MoeRowsSlot {
  uint16_t slot;
  uint16_t expert;
};

/// An expert of a row, in shared memory.
struct MoeRowsRank {
  const uint8_t* down;
  float weight;
  int32_t expert;
};

/// A codebook in dynamic shared memory.
struct MoeRowsCodebook {
  CodebookPlace place;  ///< what to copy; no words: nothing, or another type has the same codebook
  int32_t at;           ///< offset
};

/// What differs between the routed experts and the shared one.
struct MoeRowsKind {
  MoeRowsCodebook gate_codebook;
  MoeRowsCodebook down_codebook;
  int32_t tiles;  ///< of a slot's h
};

/// Dynamic shared memory: codebooks, tables, rows of x and h, and a ring for every warp. Offsets
/// are multiples of 16.
struct MoeRowsLayout {
  MoeRowsKind routed;
  MoeRowsKind shared;
  int32_t slots_at;  ///< MoeRowsSlot of every slot in use, routed experts only
  int32_t ranks_at;  ///< MoeRowsRank [rows of the block's y, n_used + 1]
  int32_t used_at;   ///< [rows of the block's y] routed experts in use
  int32_t outs_at;   ///< [warps, kMoeRowsGroups * kMoeRowsOutputs] sums over the routed experts;
                     ///< in place of the slots, when h is complete
  /// Rows of x of two items; later h of every slot of the rows of the block's y.
  int32_t x_at;
  int32_t x_bytes;    ///< of a row of x, moe_rows_x_bytes()
  int32_t h_bytes;    ///< of a row of h
  int32_t stages_at;  ///< the first warp's ring
  int32_t stages;     ///< of a warp, 2 to moe_rows_most_stages()
  int32_t stage_bytes;
  int32_t ranks_of_unit;  ///< routed experts whose rows of down are copied together, even
  /// Blocks that share a row of y, none with elements of another row; 0: the elements of all rows
  /// are divided evenly among all blocks.
  int32_t blocks_per_row;
  int32_t bulk;  ///< 1: all copies' sizes are multiples of 16. Packed matrices are aligned to 16.
};

/// Slots as in MoeDecodeArgs. An item is a tile of kMoeHiddenTile elements of a slot's h; all rows'
/// items of the shared expert come first, then those of the routed experts in use. Blocks claim
/// items in this order. The elements of y are divided among the blocks, kMoeRowsOutputs together.
struct MoeRowsArgs {
  ExpertTableArgs table;
  MoeRowsLayout layout;
  RoundedRows x;             ///< [.., n_embd]
  const int32_t* ids;        ///< [rows, n_used]; -1 from the first unused rank on
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  RoundedRows h;  ///< [slots, h_width]
  const int32_t* row_ids;
  const uint32_t* codebook;
  uint32_t* counters;  ///< moe_rows_counters() zeros; zero again at the end
  Activation activation;
  float scale;   ///< of a row's sum over all experts
  int32_t rows;  ///< in the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
  int32_t biased;  ///< 1: the routed experts' down products have biases
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_
