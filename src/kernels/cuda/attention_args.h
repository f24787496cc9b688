// Arguments of the attention kernels, and how the CUDA back end lays out a KV page.
//
// A page holds 64 positions. For each kv head its keys, then for each kv head its values. Elements
// come in units of 16 bytes that one thread loads at once, the first element in the lowest bits:
//   keys    [unit of a head's elements][position] units: neighbouring threads have neighbouring
//           positions, and a thread walks over a position's elements;
//   values  [group of positions][pair of elements] units, each with the pair at every position of
//   the
//           group: neighbouring threads have neighbouring pairs and walk over the positions.
// A unit of q4_0 has 32 elements, of q8_0 16, of f16 and bf16 8, of f32 4. Behind the units of a
// quantised head lie the scales of its blocks of 32 elements, [block][position] f16.
// The bytes of a page are as many as the oracle's.
#ifndef CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_
#define CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Ops::kv_layout(): this arrangement, and the arithmetic of attend_prefill.cu.
inline constexpr uint32_t kKvLayout = 0x201;

/// Positions of a page, and of a split (kernels/attention_rules.h).
inline constexpr int kPage = 64;
inline constexpr int kSplit = 256;
/// Most elements of a head.
inline constexpr int kMaxHeadDim = 512;

/// Types of keys and values.
enum class KvType : int32_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct AttentionDims {
  int32_t n_heads;
  int32_t n_kv_heads;
  int32_t head_dim;
  int32_t rope_dims;
  int32_t gated;  ///< 1: every head has a gate behind its query

  /// From one head's query to the next one's.
  CHIMERE_INLINE constexpr int64_t query_stride() const {
    return gated != 0 ? int64_t{2} * head_dim : int64_t{head_dim};
  }
};

struct KvArgs {
  uint8_t* base;
  int64_t page_bytes;
  KvType k_type;
  KvType v_type;
};

/// rope_table: a thread for each angle of each row.
struct RopeTableArgs {
  const int32_t* row_position;
  const double* frequencies;  ///< [rope_dims / 2]
  float* table;               ///< [rows, rope_dims]: cosines, then sines
  int32_t rows;
  int32_t half;  ///< rope_dims / 2
};

/// qk_norm_rope_append: a warp for each head of q, of k and of v of each row.
struct AppendArgs {
  BatchArgs batch;
  AttentionDims dims;
  const float* rope;  ///< [rows, rope_dims]
  const float* q_norm;
  const float* k_norm;
  float eps;
  Rows qg;
  ConstRows k;
  ConstRows v;
  KvArgs kv;
};

/// attend_N, attend_fold and attend_prefill_N.
struct AttendArgs {
  BatchArgs batch;
  AttentionDims dims;
  float scale;
  int32_t row_class;       ///< rows of this class
  int32_t rows_per_slice;  ///< at least those of the largest slice of this class
  ConstRows qg;
  KvArgs kv;
  Rows out;
  /// Each split's share, for each head, [slices * rows_per_slice, n_heads]: its weighted values,
  /// [max_splits, head_dim], then its largest score and its sum of weights, [max_splits, 2].
  /// nullptr: a block folds the splits itself.
  float* parts;
  int32_t max_splits;
  int32_t group;  ///< heads of a kv head
  int32_t tiles;  ///< blocks of a kv head
  int32_t
      warms_icache;  ///< 1: one wave of blocks, whose time before the previous kernel's end is free
  int32_t prefetches;  ///< 1: likewise, and what they read is little
};

/// Queries of a block of attend_prefill_N.
inline constexpr int kChunkQueries = 128;
inline constexpr int kPrefillThreads = kChunkQueries / 16 * 32;

/// Dynamic shared memory of attend_prefill_N: twice keys and values of 32 positions, as f16.
CHIMERE_INLINE constexpr int chunk_shared_bytes(int head_dim) { return 2 * 2 * 32 * head_dim * 2; }

inline constexpr int kAppendWarps = 4;
inline constexpr int kFoldThreads = kMaxHeadDim / 4;

/// Threads of attend_N. A thread has kSplit / kAttendThreads positions, and pairs of elements.
inline constexpr int kAttendThreads = 128;

/// Stages of keys or values that attend_N holds, each of kStageUnits units for a thread.
inline constexpr int kFeedStages = 4;
inline constexpr int kStageUnits = 4;

/// Dynamic shared memory of attend_N: stages, queries, weights (or the scales of keys), the scales
/// of values, sums and maxima; results if a block folds splits.
CHIMERE_INLINE constexpr int attend_shared_bytes(int heads, int head_dim, bool folds) {
  const int query_bytes = heads * head_dim * 4;
  const int weight_bytes = kSplit * heads * 4;
  const int scale_bytes = kSplit / 32 * 2 * head_dim;
  return kFeedStages * kStageUnits * kAttendThreads * 16 + query_bytes +
         (weight_bytes > scale_bytes ? weight_bytes : scale_bytes) + scale_bytes +
         heads * (16 + 4 + kAttendThreads / 32) * 4 + (folds ? query_bytes : 0);
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_
