// Arguments of the gated delta net's kernels: GdnShape and the pointers of Ops::gdn_conv and
// Ops::gdn_scan (kernels/api.h).
#ifndef CHIMERE_KERNELS_CUDA_GDN_ARGS_H_
#define CHIMERE_KERNELS_CUDA_GDN_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"
#include "kernels/cuda/rounding_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Largest convolution size in taps.
inline constexpr int kMaxTaps = 8;
/// Rows of a chunk of the chunked delta rule.
inline constexpr int kChunkRows = 64;
/// State columns per block of gdn_prefill_scan.
inline constexpr int kPrefillColumns = 32;

struct GdnDims {
  int32_t n_k_heads;
  int32_t n_v_heads;
  int32_t head_dim;
  int32_t taps;
  int32_t tiled_heads;
};

inline constexpr int kFoldThreads = 256;
/// Rows of a state per block of gdn_fold.
inline constexpr int kFoldStateRows = 16;

/// gdn_fold. A state without a base is not folded.
struct GdnFoldArgs {
  BatchArgs batch;
  GdnDims dims;
  SlotArgs conv;
  SlotArgs scan;
};

/// Rows of a sequence per block of gdn_conv_rows.
inline constexpr int kConvTile = 64;
/// Rows that are convolved before their heads are normalised.
inline constexpr int kConvRows = 16;

/// Index into GdnConvArgs::edges for tile `tile` of a sequence whose rows begin at `row_begin`:
/// unique within a step, and below rows / kConvTile + n_sequences.
CHIMERE_INLINE int conv_edge(int sequence, int row_begin, int tile) {
  return row_begin / kConvTile + tile + sequence;
}

/// gdn_conv_edges and gdn_conv_rows.
struct GdnConvArgs {
  BatchArgs batch;
  GdnDims dims;
  const float* weight;
  float eps;
  SlotArgs state;
  Rows qkv;
  float* edges;  ///< [conv_edge(), taps - 1, conv_dim]: inputs before each tile, oldest first
};

/// Common to all kernels of the recurrence.
struct GdnScanArgs {
  BatchArgs batch;  ///< keep_row is nullptr if no row is kept
  GdnDims dims;
  int32_t run;  ///< which run of slices of one class, in every sequence
  ConstRows qkv;
  ConstRows alpha;
  ConstRows beta;
  const float* a;
  const float* dt_bias;
  SlotArgs state;
  float* carry;  ///< [n_sequences, scan_state_floats]: state between two runs of a sequence
  Rows out;
};

/// gdn_decode. Without `conv_weight`, qkv is the output of gdn_conv.
struct GdnDecodeArgs {
  GdnScanArgs scan;
  int32_t columns;  ///< state columns per block; at most 32
  int32_t folded;   ///< the previous kernel, gdn_fold, has written states
  const float* conv_weight;
  SlotArgs conv_state;
  uint32_t* barrier_counters;  ///< [n_sequences, n_k_heads] zeros; zero again at the end
  float eps;                   ///< for the norms of q and k
};

/// gdn_decode_128 and gdn_decode_128_rows: all of Ops::gdn_mix for decode rows, with heads of 128
/// elements and four taps.
/// All pointers but `barrier_counters` are aligned to 16 bytes, and so are the slots of both
/// states.
struct GdnMixArgs {
  GdnScanArgs scan;
  int32_t folded;  ///< the previous kernel, gdn_fold, has written states
  const float* conv_weight;
  SlotArgs conv_state;
  uint32_t* barrier_counters;  ///< [n_sequences, n_k_heads] zeros; zero again at the end
  ConstRows z;
  const float* norm;  ///< [128]
  RoundedRows rounded;
  float eps;
};

inline constexpr int kMixDim = 128;
inline constexpr int kMixTaps = 4;
inline constexpr int kMixThreads = 256;
inline constexpr int kMixStateBytes = kMixDim * kMixDim * 4;

/// Shared memory of a block of gdn_decode_128.
struct alignas(16) GdnMixShared {
  float raw[3 * kMixDim];  ///< q, k, v after the convolution
  float q[kMixDim];        ///< normalised and scaled
  float k[kMixDim];
  float kept[kMixDim];  ///< chains over the columns
  float read[kMixDim];
  float gate[kMixDim];  ///< silu(z)
  float decay;
  float beta;
  float kq;
  int32_t last_reader;
};

/// Rows of a sequence that a block of gdn_decode_128_rows holds at a time, and those of them that
/// it prepares together.
inline constexpr int kMixRows = 8;
inline constexpr int kMixBatch = 4;
inline constexpr int kMixRowsThreads = 384;
/// Groups of columns whose chains of a row pass from warp to warp.
inline constexpr int kMixRowsGroups = 2;

/// Shared memory of a block of gdn_decode_128_rows.
struct alignas(16) GdnMixRowsShared {
  /// Inputs of the convolution (q, k, v) and z: those before the rows, which have no z, then those
  /// of the rows.
  float input[kMixTaps - 1 + kMixRows][4 * kMixDim];
  float q[kMixRows][kMixDim];  ///< after the convolution; then normalised and scaled
  float k[kMixRows][kMixDim];
  float v[kMixRows][kMixDim];
  float gate[kMixRows][kMixDim];   ///< silu(z)
  float delta[kMixRows][kMixDim];  ///< corrections of the state
  float out[kMixRows][kMixDim];
  /// Of a row up to a quarter: k, then q, of two columns.
  float chains[kMixRowsGroups][32][4];
  float decay[kMixRows];
  float beta[kMixRows];
  float kq[kMixRows];
  int32_t slot[kMixRows];  ///< where the state after a row is stored; negative: nowhere
  int32_t keep[kMixRows];  ///< where the row is kept; negative: nowhere
  int32_t last_reader;
};

inline constexpr int kGdnPrefillThreads = 256;
/// Static shared memory of a block of gdn_prefill_scan, without its state columns.
inline constexpr int kGdnPrefillSharedBytes =
    4 * (16 * (2 * kChunkRows + 4) + 2 * kChunkRows * kPrefillColumns +
         2 * kChunkRows * (kChunkRows + 1) + 4 * kChunkRows);

/// gdn_prefill_products, gdn_prefill_scan, gdn_prefill_solve and gdn_prefill_advance.
struct GdnPrefillArgs {
  GdnScanArgs scan;
  /// [rows, n_k_heads, 2, kChunkRows]: for row i and each row j <= i of its chunk, chain(k_i, k_j),
  /// then chain(q_i, k_j)
  float* products;
  // Outputs of gdn_prefill_solve, inputs of gdn_prefill_advance.
  float* solved;  ///< [rows, n_v_heads, 2, head_dim]: corrections for a zero state, and their
                  ///< dependence on the state
  float* mixed;   ///< [rows, n_v_heads, kChunkRows]: B_ij of row i
  float* decays;  ///< [rows, n_v_heads, 2]: Γ_i, and γ from row i to the chunk's last row
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_GDN_ARGS_H_
