// Arguments of moe_decode.cu and moe_prefill.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ARGS_H_

#include <cstdint>

#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// The packed matrices of an expert, in device memory.
struct ExpertPointers {
  const uint8_t* gate;
  const uint8_t* up;
  const uint8_t* down;
};

/// What the experts of one kind, routed or shared, have in common.
struct ExpertShape {
  int32_t gate_type;  ///< DType
  int32_t up_type;
  int32_t down_type;
  int32_t n_ff;
  int64_t gate_row_bytes;
  int64_t up_row_bytes;
  int64_t down_row_bytes;

  bool operator==(const ExpertShape&) const = default;
};

struct ExpertTableArgs {
  const ExpertPointers* experts;  ///< [n_experts], then the shared expert if there is one
  ExpertShape routed;
  ExpertShape shared;
  int32_t n_experts;
  int32_t has_shared;
};

inline constexpr int kMoeGateUpThreads = 128;
/// Elements of h that a block computes: a block of activations.
inline constexpr int kMoeHiddenTile = 32;
/// Elements of h that a warp computes.
inline constexpr int kMoeWarpHidden = 8;
static_assert(kMoeGateUpThreads / 32 * kMoeWarpHidden == kMoeHiddenTile);

/// Elements of y that a block of the down product computes.
inline constexpr int kMoeDownTile = 16;
inline constexpr int kMoeDownNarrowThreads = 9 * 32;
inline constexpr int kMoeDownUnpackedThreads = 32 * 32;
/// Most ranks of a row, with a warp left for the shared expert.
inline constexpr int kMoeMostUsed = 31;

/// What a launch has for the routed experts or for the shared one.
struct MoeDecodeKind {
  CodebookPlace codebook[2];  ///< of gate, and of up if that is another; or of down
  int32_t at_once;            ///< outputs whose rows a warp has in its memory, even; 0: none fit
};

/// A slot is a row and a rank; the shared expert has the rank behind the last. Row i of the row set
/// has the slots i * (n_used + has_shared) + rank.
///
/// moe_decode_gate_up: a block for each tile of h (grid x), rank (y) and row (z).
/// moe_decode_down_*: a block for each tile of y (x) and row (y), a warp for each rank. Dynamic
/// shared memory: the codebooks of gate and up, or of the routed and the shared expert's down; from
/// x_at on the row of x (gate_up); from stages_at on stage_bytes for each warp: weight rows, of
/// down behind x_bytes for the slot's h.
struct MoeDecodeArgs {
  MoeDecodeKind routed;
  MoeDecodeKind shared;
  ExpertTableArgs table;
  const float* x;  ///< [rows, n_embd]
  int64_t x_stride;
  RoundedRows x_rounded;
  const int32_t* ids;        ///< [rows, n_used]
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  float* h;               ///< [slots, h_width], where down has a float type
  RoundedRows h_rounded;  ///< the same where it has not
  const int32_t* row_ids;
  const uint32_t* codebook;
  int32_t rows;  ///< of the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;  ///< the larger n_ff, a multiple of 32
  int32_t x_at;     ///< a multiple of 16, as the next three
  int32_t x_bytes;
  int32_t stages_at;
  int32_t stage_bytes;
  int32_t warm_icache;  ///< blocks go through the product once before they have its input
};

inline constexpr int kMoeMapThreads = 1024;
/// Most experts of a layer, with one for the shared expert.
inline constexpr int kMoeMostExperts = kMoeMapThreads - 1;
/// Elements of h of a tile: as many rows of gate and of up make its kTileOutputs.
inline constexpr int kMoePrefillHidden = 64;
inline constexpr int kMoeCombineThreads = 256;

/// Rows of one expert that a block computes: positions [begin, begin + count).
struct MoeTile {
  int32_t expert;
  int32_t begin;
  int32_t count;
};

/// Experts of prefill rows. The slots are sorted by expert: a slot's place there is its position.
///
/// moe_prefill_map (one block) makes slot_at and the tiles. moe_prefill_gate_up: x the tiles of h,
/// y as many tiles as there can be. moe_prefill_down: x the tiles of y, y likewise.
/// moe_prefill_combine: a block for each row. Dynamic shared memory of gate_up and down:
/// kTileSharedBytes, then the codebooks as in MoeDecodeArgs, of down the larger one.
struct MoePrefillArgs {
  ExpertTableArgs table;
  HalfRows x;                ///< [.., n_embd]
  const int32_t* ids;        ///< [rows, n_used]
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  float* h;           ///< [slots, h_width], by position
  HalfRows h_halves;  ///< h rounded
  float* out;         ///< [slots, n_embd], by slot; may be where h is
  int32_t* slot_at;   ///< [slots] by position
  MoeTile* tiles;
  int32_t* n_tiles;
  const int32_t* row_ids;
  const uint32_t* codebook;
  int32_t rows;  ///< of the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ARGS_H_
