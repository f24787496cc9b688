// Arguments of the kernels of sequence_attention.cu.
#ifndef CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_ARGS_H_
#define CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_ARGS_H_

#include <cstdint>

#include "kernels/cuda/batch_args.h"

namespace chimere::kernels::cuda {

inline constexpr int kSequenceThreads = 128;
/// Queries of a block, and keys that it has in shared memory at a time.
inline constexpr int kSequenceQueries = 16;
inline constexpr int kSequenceKeys = 32;
inline constexpr int kMostSequenceHeadDim = 128;  ///< kMaxSequenceHeadDim of kernels/api.h

/// One block per row.
struct RotateHeadsArgs {
  Rows x;             ///< [rows, heads * head_dim], in place
  const float* rope;  ///< [rows, rope_dims]: cosines, then sines
  const int32_t* row_position;
  int32_t heads;
  int32_t head_dim;
  int32_t rope_dims;
};

/// Grid: x tiles of kSequenceQueries rows, y heads. Dynamic shared memory:
/// sequence_shared_floats(head_dim).
struct AttendSequencesArgs {
  ConstRows q;  ///< [rows, n_heads * head_dim], rotated
  ConstRows k;  ///< [rows, n_kv_heads * head_dim], rotated
  ConstRows v;
  Rows out;
  const int32_t* row_position;  ///< [rows]; -1: padding
  const int32_t* row_visible;   ///< [rows]: rows of the row's sequence
  const float* alibi_slopes;    ///< [n_heads]; nullptr: none
  int32_t rows;
  int32_t head_dim;  ///< a multiple of 16, at most kMostSequenceHeadDim
  int32_t group;     ///< query heads of a KV head
  int32_t window;    ///< 0: none
  float scale;
};

/// Queries, keys (padded against bank conflicts), values and weights.
constexpr int sequence_shared_floats(int head_dim) {
  return kSequenceQueries * head_dim + kSequenceKeys * (head_dim + 1) + kSequenceKeys * head_dim +
         kSequenceQueries * kSequenceKeys;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_ARGS_H_
