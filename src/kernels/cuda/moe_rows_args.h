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

inline constexpr int kMoeRowsDownThreads = 128;
/// Blocks of moe_rows_down per multiprocessor.
inline constexpr int kMoeRowsDownBlocks = 4;
/// Elements of y in an item of moe_rows_down, and in a unit: a warp's copies of as many rows.
inline constexpr int kMoeRowsDownTile = 32;
inline constexpr int kMoeRowsDownOutputs = kMoeRowsDownTile * 32 / kMoeRowsDownThreads;

/// Slots as in MoeDecodeArgs. An item of moe_rows_gate_up is a tile of kMoeHiddenTile elements of a
/// slot's h, an item of moe_rows_down a tile of kMoeRowsDownTile elements of a row's y. Blocks stay
/// for the whole launch and share the items evenly, each taking consecutive ones.
///
/// Dynamic shared memory: the codebooks of the routed and the shared expert; from x_at on the
/// rounded rows of x, or of h of every slot, for all rows of the block's items, x_bytes each; from
/// stages_at on `stages` of stage_bytes for every warp.
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
  CodebookPlace routed_codebook;
  CodebookPlace shared_codebook;
  Activation activation;
  float scale;    ///< of a row's sum over all experts
  int32_t items;  ///< of the launch
  int32_t tiles;  ///< items per slot, or per row for moe_rows_down
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
  int32_t x_at;
  int32_t x_bytes;
  int32_t stages_at;
  int32_t stages;  ///< 2 .. kMoeRowsStages
  int32_t stage_bytes;
  int32_t biased;  ///< 1: the routed experts' down products have biases
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ROWS_ARGS_H_
