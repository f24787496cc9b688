// Arguments of the kernels of state_space.cu: the shapes and operands of kernels/state_space.h.
#ifndef CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_
#define CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Largest convolution size in taps.
inline constexpr int kMaxConvTaps = 8;
inline constexpr int kConvThreads = 64;
/// Columns of a state per block: one warp.
inline constexpr int kScanColumns = 32;

/// Rows of a tile of causal_conv_tiles; at least kMaxConvTaps.
inline constexpr int kCausalConvTile = 64;

/// causal_conv, causal_conv_edges, causal_conv_tiles: one thread per channel.
struct CausalConvArgs {
  BatchArgs batch;  ///< fold_begin and keep_row are nullptr if no row is folded, or kept
  int32_t channels;
  int32_t taps;
  int32_t silu;
  const float* weight;  ///< [channels, taps]
  const float* bias;    ///< [channels], or nullptr
  SlotArgs state;
  Rows x;        ///< [rows, channels], in place
  float* edges;  ///< [tiles, taps - 1, channels]: inputs before each tile, oldest first
};

/// ssd_scan: a block per kScanColumns columns of a head, or per 16 if the head has no multiple.
/// ssd_prefill_products, ssd_prefill_advance.
struct SsdArgs {
  BatchArgs batch;  ///< as in CausalConvArgs
  int32_t n_heads;
  int32_t head_dim;
  int32_t n_groups;
  int32_t state_dim;
  int32_t columns;  ///< of a block; divides head_dim
  const float* a;   ///< [n_heads]
  const float* d;
  const float* dt_bias;
  ConstRows xbc;
  ConstRows dt;
  SlotArgs state;
  Rows out;
  /// Which run of slices of one class of every sequence; ssd_scan then folds in run 0, and computes
  /// runs of decode rows. kAllRuns: ssd_scan computes all rows.
  int32_t run;
  float* carry;  ///< [n_sequences, state_floats()]: state between two runs of a sequence
  // Outputs of ssd_prefill_products, inputs of ssd_prefill_advance.
  float* products;  ///< [rows, n_groups, kSsdChunkRows]: C_i B_j for the rows j <= i of i's chunk
  double* decays;   ///< [rows, n_heads]: log decay from the chunk's start up to and with the row
  float* steps;     ///< [rows, n_heads]: dt
};

inline constexpr int32_t kAllRuns = -1;
/// Floats in shared memory of a row's B, or C, of n: whole units of 16 bytes.
CHIMERE_INLINE constexpr int scan_row_floats(int n) { return (n + 3) / 4 * 4; }
/// Rows of a chunk.
inline constexpr int kSsdChunkRows = 64;
/// The state_dim of ssd_prefill_products and ssd_prefill_advance.
inline constexpr int kSsdPrefillStates = 128;
/// State columns per block of ssd_prefill_advance; divides head_dim.
inline constexpr int kSsdPrefillColumns = 32;
inline constexpr int kSsdPrefillThreads = 256;
/// Heads per block of ssd_prefill_products that computes decays.
inline constexpr int kSsdDecayHeads = kSsdPrefillThreads / kSsdChunkRows;

/// The state_dim of selective_scan_16: half a warp.
inline constexpr int kSmallStates = 16;

/// selective_scan, selective_scan_16: one thread per channel.
struct SelectiveArgs {
  BatchArgs batch;  ///< as in CausalConvArgs
  int32_t channels;
  int32_t state_dim;
  const float* a;  ///< [channels / 16, state_dim, 16]
  const float* d;  ///< [channels]
  const float* dt_bias;
  ConstRows x;
  ConstRows dt;
  ConstRows b;
  ConstRows c;
  SlotArgs state;
  Rows out;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STATE_SPACE_ARGS_H_
