// Arguments of the gated delta net's kernels: GdnShape and the pointers of Ops::gdn_conv and
// Ops::gdn_scan (kernels/api.h).
#ifndef CHIMERE_KERNELS_CUDA_GDN_ARGS_H_
#define CHIMERE_KERNELS_CUDA_GDN_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"
#include "kernels/cuda/rounding_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Most taps of the convolution.
inline constexpr int kMaxTaps = 8;
/// Most rows of a chunk.
inline constexpr int kPrefill = 64;
/// Columns of the state that a block of gdn_prefill_scan advances.
inline constexpr int kPrefillColumns = 32;

struct GdnDims {
  int32_t n_k_heads;
  int32_t n_v_heads;
  int32_t head_dim;
  int32_t taps;
  int32_t tiled_heads;
};

struct SlotArgs {
  float* base;
  int64_t stride;  ///< in floats
};

/// Rows of a sequence that a block of gdn_conv_rows takes.
inline constexpr int kConvTile = 64;
/// Rows that are convolved before their heads are normalised.
inline constexpr int kConvRows = 16;

/// Place in GdnConvArgs::edges of tile `tile` of a sequence whose rows begin with `row_begin`:
/// different for any two tiles of a step, and below rows / kConvTile + n_sequences.
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
  float* edges;  ///< [conv_edge(), taps - 1, conv_dim] the inputs before a tile, oldest first
};

/// What is done with the convolved rows of one layer.
struct GdnScanArgs {
  BatchArgs batch;
  GdnDims dims;
  int32_t run;  ///< which run of slices of one class, of each sequence
  ConstRows qkv;
  ConstRows alpha;
  ConstRows beta;
  const float* a;
  const float* dt_bias;
  SlotArgs state;
  float* carry;  ///< [n_sequences, scan_state_floats] state between two runs of a sequence
  Rows out;
};

/// gdn_decode. Without `conv_weight`, qkv is what gdn_conv leaves.
struct GdnDecodeArgs {
  GdnScanArgs scan;
  int32_t columns;  ///< of the state, of a block; at most 32
  const float* conv_weight;
  SlotArgs conv_state;
  uint32_t* barrier_counters;  ///< [n_sequences, n_k_heads] zeros, and zeros again at the end
  float eps;                   ///< of the norms of q and k
};

/// gdn_decode_128: the whole of Ops::gdn_mix for decode rows, with heads of 128 elements and four
/// taps. All but `arrivals` is aligned to 16 bytes, and so is a slot of either state.
struct GdnMixArgs {
  GdnScanArgs scan;
  const float* conv_weight;
  SlotArgs conv_state;
  uint32_t* barrier_counters;  ///< [n_sequences, n_k_heads] zeros, and zeros again at the end
  ConstRows z;
  const float* norm;  ///< [128]
  RoundedRows rounded;
  float eps;
};

inline constexpr int kMixDim = 128;
inline constexpr int kMixTaps = 4;
inline constexpr int kMixThreads = 256;
inline constexpr int kMixStateBytes = kMixDim * kMixDim * 4;
/// Rows that a block prepares together, where a sequence has several.
inline constexpr int kMixRows = 4;

/// What the threads of a block of gdn_decode_128 share.
template <int kRows>
struct alignas(16) GdnMixShared {
  float raw[kRows][3 * kMixDim];  ///< q, k, v as the convolution leaves them
  float q[kRows][kMixDim];        ///< normalised and scaled
  float k[kRows][kMixDim];
  float kept[kRows][kMixDim];  ///< chains over the columns
  float read[kRows][kMixDim];
  float gate[kRows][kMixDim];  ///< silu(z)
  float decay[kRows];
  float beta[kRows];
  float kq[kRows];
  int32_t last_reader;
};

inline constexpr int kGdnPrefillThreads = 256;
/// Shared memory of a block of gdn_prefill_scan besides its columns of the state.
inline constexpr int kGdnPrefillSharedBytes =
    4 * (16 * (2 * kPrefill + 4) + 2 * kPrefill * kPrefillColumns + 2 * kPrefill * (kPrefill + 1) +
         4 * kPrefill);

/// gdn_prefill_products, gdn_prefill_scan, gdn_prefill_solve and gdn_prefill_advance.
struct GdnPrefillArgs {
  GdnScanArgs scan;
  /// [rows, n_k_heads, 2, kPrefill] of row i and row j <= i of its chunk: chain(k_i, k_j), then
  /// chain(q_i, k_j)
  float* products;
  // What gdn_prefill_solve leaves for gdn_prefill_advance.
  float* solved;  ///< [rows, n_v_heads, 2, head_dim]: corrections without a state, and what a state
                  ///< takes off
  float* mixed;   ///< [rows, n_v_heads, kPrefill]: B_ij of row i
  float* decays;  ///< [rows, n_v_heads, 2]: Γ_i, and γ from row i to the chunk's last
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_GDN_ARGS_H_
