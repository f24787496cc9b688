// Arguments of the attention kernels, and the layout of a KV page on a GPU.
//
// A page holds 64 positions: for each kv head its keys, then for each kv head its values. Elements
// are stored in 16-byte units, one load of a thread, with the first element in the lowest bits:
//   keys    [unit of a head's elements][position]: neighbouring threads read neighbouring
//           positions, and a thread iterates over a position's elements;
//   values  [group of positions][pair of elements], each unit with the pair at every position of
//   the group: neighbouring threads read neighbouring pairs and iterate over positions.
// A unit holds 32 elements of q4_0, 16 of q8_0, 8 of f16 or bf16, or 4 of f32. The scales of a
// quantised head follow its units, one per block of 32 elements: [block][position] f16.
// A page has as many bytes as in the reference back end.
#ifndef CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_
#define CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"
#include "kernels/cuda/rounding_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

/// Ops::kv_layout(). Identifies this layout and the arithmetic of attend_prefill.cu.
inline constexpr uint32_t kKvLayout = 0x201;

/// Positions per page, and per split (kernels/attention_rules.h).
inline constexpr int kPage = 64;
inline constexpr int kSplit = 256;
/// Largest head_dim.
inline constexpr int kMaxHeadDim = 512;

/// Element types of keys and values.
enum class KvType : int32_t { kF32, kF16, kBF16, kQ8_0, kQ4_0 };

struct AttentionDims {
  int32_t n_heads;
  int32_t n_kv_heads;
  int32_t head_dim;
  int32_t rope_dims;
  int32_t gated;  ///< 1: each head's gate follows its query

  /// Elements from one head's query to the next head's.
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

/// rope_table: one thread per angle and row.
struct RopeTableArgs {
  const int32_t* row_position;
  const double* frequencies;  ///< [rope_dims / 2]
  float* table;               ///< [rows, rope_dims]: cosines, then sines
  int32_t rows;
  int32_t half;  ///< rope_dims / 2
};

/// qk_norm_rope_append: one warp per row and head of q, k and v.
struct AppendArgs {
  BatchArgs batch;
  AttentionDims dims;
  const float* rope;    ///< [rows, rope_dims]; not read if rope_dims is 0
  const float* q_norm;  ///< nullptr: no norm
  const float* k_norm;  ///< likewise
  float eps;
  Rows qg;
  ConstRows k;
  ConstRows v;
  KvArgs kv;
};

/// attend_N, attend_split_N, attend_fold and attend_prefill_N.
struct AttendArgs {
  BatchArgs batch;
  AttentionDims dims;
  float scale;
  int32_t window;          ///< AttentionShape::window
  const float* sinks;      ///< [n_heads]; nullptr: none
  int32_t row_class;       ///< only rows of this class attend
  int32_t rows_per_slice;  ///< at least the rows of the largest slice of this class
  ConstRows qg;
  KvArgs kv;
  Rows out;
  /// All but attend_prefill_N: of the result, if head_dim is a multiple of 32; q nullptr: none.
  RoundedRows rounded;
  /// Partial results for each row and head, [slices * rows_per_slice, n_heads]: weighted values of
  /// each split from the row's first one on, [max_splits, head_dim], then its largest score and its
  /// sum of weights, [max_splits, 2]. nullptr: a block folds the splits itself.
  float* parts;
  int32_t max_splits;
  int32_t group;  ///< query heads per kv head
  int32_t tiles;  ///< blocks per kv head
  /// 1: warm the instruction cache. The blocks form one wave, so the time before the previous
  /// kernel's end is free.
  int32_t warms_icache;
  int32_t prefetches;  ///< 1: prefetch keys and values; likewise, and there is little to read
};

/// Queries per block of attend_prefill_N.
inline constexpr int kPrefillQueries = 128;
inline constexpr int kPrefillThreads = kPrefillQueries / 16 * 32;

/// Dynamic shared memory of attend_prefill_N: two buffers of f16 keys and values of 32 positions.
CHIMERE_INLINE constexpr int prefill_shared_bytes(int head_dim) {
  return 2 * 2 * 32 * head_dim * 2;
}

inline constexpr int kAppendWarps = 4;
inline constexpr int kFoldThreads = kMaxHeadDim / 4;

/// Threads of attend_N. A thread owns kSplit / kAttendThreads positions, and pairs of elements.
inline constexpr int kAttendThreads = 128;

/// Pipeline stages of keys or values in attend_N, each with kStageUnits units per thread.
inline constexpr int kPipelineStages = 4;
inline constexpr int kStageUnits = 4;

/// Dynamic shared memory of attend_N: pipeline stages, queries, weights (or the scales of keys),
/// scales of values, sums and maxima; results if a block folds splits.
CHIMERE_INLINE constexpr int attend_shared_bytes(int heads, int head_dim, bool folds) {
  const int query_bytes = heads * head_dim * 4;
  const int weight_bytes = kSplit * heads * 4;
  const int scale_bytes = kSplit / 32 * 2 * head_dim;
  return kPipelineStages * kStageUnits * kAttendThreads * 16 + query_bytes +
         (weight_bytes > scale_bytes ? weight_bytes : scale_bytes) + scale_bytes +
         heads * (16 + 4 + kAttendThreads / 32) * 4 + (folds ? query_bytes : 0);
}

/// Threads of attend_split_N. A thread owns a position, then a pair of elements.
inline constexpr int kAttendSplitThreads = kSplit;

/// Dynamic shared memory of attend_split_N: queries and gates, weights, results twice, maxima and
/// sums; keys and values of a kv head in `pages` pages, each of `head_bytes`.
CHIMERE_INLINE constexpr int64_t attend_split_shared_bytes(int heads, int head_dim, int64_t pages,
                                                           int64_t head_bytes) {
  return heads * (4 * head_dim + kSplit + kAttendSplitThreads / 32) * 4 + 32 + pages * head_bytes;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ATTENTION_ARGS_H_
