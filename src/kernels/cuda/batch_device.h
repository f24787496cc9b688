// A step's rows and states, for device code.
#ifndef CHIMERE_KERNELS_CUDA_BATCH_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_BATCH_DEVICE_H_

#include "kernels/cuda/batch_args.h"
#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// The rows of a sequence; empty if it has no slices.
struct SequenceRange {
  int begin;
  int count;
};

__device__ inline SequenceRange rows_of(const BatchArgs& batch, int sequence) {
  const int first = batch.sequence_slices[sequence];
  const int end = batch.sequence_slices[sequence + 1];
  if (first == end) return {0, 0};
  const int begin = batch.slices[first].row_begin;
  const SliceArgs last = batch.slices[end - 1];
  return {begin, last.row_begin + last.row_count - begin};
}

/// Where a row of the step keeps what folding needs, or nullptr.
__device__ __forceinline__ float* kept_row(const BatchArgs& batch, const SlotArgs& state, int row) {
  if (batch.keep_row == nullptr || batch.keep_row[row] < 0) return nullptr;
  return state.rows + batch.keep_row[row] * state.row_stride;
}

/// The kept rows of a sequence that are to be folded into its state.
struct UnfoldedRows {
  const int32_t* row_blocks;
  int count;
};

__device__ __forceinline__ UnfoldedRows unfolded_rows(const BatchArgs& batch, int sequence) {
  if (batch.fold_begin == nullptr) return {nullptr, 0};
  const int begin = batch.fold_begin[sequence];
  return {batch.fold_rows + begin, batch.fold_begin[sequence + 1] - begin};
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_BATCH_DEVICE_H_
