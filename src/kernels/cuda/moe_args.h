// Arguments of moe_decode.cu and moe_prefill.cu.
#ifndef CHIMERE_KERNELS_CUDA_MOE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_MOE_ARGS_H_

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// The packed matrices of an expert, in device memory. Without a gate, `gate` is `up`, and
/// moe_decode_gate_up computes the product twice, the second time from the L2 cache.
struct ExpertPointers {
  const uint8_t* gate;
  const uint8_t* up;
  const uint8_t* down;
  const float* gate_bias;  ///< [n_ff]; nullptr: none
  const float* up_bias;    ///< [n_ff]
  const float* down_bias;  ///< [n_embd]
};

/// Common to all experts of one kind, routed or shared.
struct ExpertShape {
  int32_t gate_type;  ///< DType
  int32_t up_type;
  int32_t down_type;
  int32_t n_ff;
  int32_t gated;
  int64_t gate_row_bytes;
  int64_t up_row_bytes;
  int64_t down_row_bytes;

  bool operator==(const ExpertShape&) const = default;
};

CHIMERE_INLINE float biased(float v, const float* bias, int i) {
  return bias != nullptr ? v + bias[i] : v;
}

/// Element i of h from the products with gate and up; without a gate, these are equal.
CHIMERE_INLINE float hidden(Activation f, const ExpertShape& shape, const ExpertPointers& expert,
                            int i, float gate, float up) {
  return kernels::activate(f, biased(gate, expert.gate_bias, i),
                           shape.gated != 0 ? biased(up, expert.up_bias, i) : 1.0F);
}

struct ExpertTableArgs {
  const ExpertPointers* experts;  ///< [n_experts], then the shared expert if any
  ExpertShape routed;
  ExpertShape shared;
  int32_t n_experts;
  int32_t has_shared;
  /// 1: expert e has the matrices of `first`, e steps further; so they are found without the table.
  int32_t regular;
  ExpertPointers first;  ///< of expert 0
  ExpertPointers last;   ///< of the shared expert
  int64_t gate_step;     ///< in bytes
  int64_t up_step;
  int64_t down_step;
};

inline constexpr int kMoeGateUpThreads = 128;
/// Elements of h that a block computes: one block of rounded activations.
inline constexpr int kMoeHiddenTile = 32;
/// Elements of h that a warp computes.
inline constexpr int kMoeWarpHidden = 8;
static_assert(kMoeGateUpThreads / 32 * kMoeWarpHidden == kMoeHiddenTile);

/// Elements of y that a block of the down product computes.
inline constexpr int kMoeDownTile = 16;
inline constexpr int kMoeDownNarrowThreads = 9 * 32;
inline constexpr int kMoeDownWideThreads = 32 * 32;
/// Largest n_used: one warp is left for the shared expert.
inline constexpr int kMoeMostUsed = 31;

/// Launch parameters of the routed experts or of the shared one.
struct MoeDecodeKind {
  CodebookPlace codebook[2];  ///< of gate, and of up if different; or of down
  int32_t at_once;  ///< outputs whose weight rows fit a warp's shared memory, even; 0: none fit
};

/// A slot is a row and a rank (k-th expert of the row); the shared expert has the rank after the
/// last. Row i of the row set has the slots i * (n_used + has_shared) + rank.
///
/// moe_decode_gate_up: one block per tile of h (grid x), rank (y) and row (z). moe_decode_down_*:
/// one block per tile of y (x) and row (y), one warp per rank. Dynamic shared memory: the codebooks
/// of gate and up, or of the routed and the shared expert's down; from x_at the row of x (gate_up
/// only); from stages_at stage_bytes per warp for weight rows, for down preceded by x_bytes for the
/// slot's h.
struct MoeDecodeArgs {
  MoeDecodeKind routed;
  MoeDecodeKind shared;
  ExpertTableArgs table;
  const float* x;  ///< [rows, n_embd]
  int64_t x_stride;
  RoundedRows x_rounded;
  const int32_t* ids;        ///< [rows, n_used]
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  float* h;               ///< [slots, h_width], if down has a float type
  RoundedRows h_rounded;  ///< the same rounded, if down is quantised
  const int32_t* row_ids;
  const uint32_t* codebook;
  Activation activation;
  float scale;   ///< of a row's sum over all experts
  int32_t rows;  ///< in the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;  ///< the larger n_ff, rounded up to a multiple of 32
  int32_t x_at;     ///< offset, a multiple of 16 like the next three
  int32_t x_bytes;
  int32_t stages_at;
  int32_t stage_bytes;
  int32_t warm_icache;  ///< run the product once before its input is ready, to warm the cache
  int32_t biased;       ///< 1: the routed experts' down products have biases
};

inline constexpr int kMoeMapThreads = 1024;
/// Most experts of a layer, leaving one thread for the shared expert.
inline constexpr int kMoeMostExperts = kMoeMapThreads - 1;
/// Elements of h per tile of gated experts: as many rows of gate and of up form its kTileOutputs.
/// Without a gate, a tile has kTileOutputs elements of h.
inline constexpr int kMoePrefillHidden = 64;
inline constexpr int kMoeCombineThreads = 256;

/// A block's rows of one expert: positions [begin, begin + count).
struct MoeTile {
  int32_t expert;
  int32_t begin;
  int32_t count;
};

/// Experts of prefill rows. Slots are sorted by expert; a slot's index in that order is its
/// position.
///
/// moe_prefill_map (one block) fills slot_at and tiles. moe_prefill_gate_up: grid x tiles of h, y
/// the largest possible number of row tiles. moe_prefill_down: x tiles of y, y likewise.
/// moe_prefill_combine: one block per row. Dynamic shared memory of gate_up: kTileSharedBytes, then
/// codebooks as in MoeDecodeArgs; of down: kTileSharedBytes, then the larger codebook.
struct MoePrefillArgs {
  ExpertTableArgs table;
  HalfRows x;                ///< [.., n_embd]
  const int32_t* ids;        ///< [rows, n_used]
  const float* weights;      ///< [rows, n_used]
  const float* shared_gate;  ///< [rows]; nullptr: the shared expert has weight 1
  float* y;                  ///< [rows, n_embd]
  int64_t y_stride;
  float* h;           ///< [slots, h_width], by position
  HalfRows h_halves;  ///< h rounded
  float* out;         ///< [slots, n_embd], by slot; may alias h
  int32_t* slot_at;   ///< [slots], by position
  MoeTile* tiles;
  int32_t* n_tiles;
  const int32_t* row_ids;
  const uint32_t* codebook;
  Activation activation;
  float scale;   ///< of a row's sum over all experts
  int32_t rows;  ///< in the row set
  int32_t n_embd;
  int32_t n_used;
  int32_t h_width;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_MOE_ARGS_H_
