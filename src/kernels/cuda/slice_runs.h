// Runs of slices of one class within a sequence, for recurrences that compute chunks and decode
// rows in different kernels.
#ifndef CHIMERE_KERNELS_CUDA_SLICE_RUNS_H_
#define CHIMERE_KERNELS_CUDA_SLICE_RUNS_H_

#include "kernels/cuda/batch_device.h"
#include "kernels/cuda/language.h"

namespace chimere::kernels::cuda {

/// Consecutive slices of one class in a sequence.
struct Run {
  int slice_begin;
  int slice_end;
  int row_class;
  bool last;  ///< the sequence's last run
};

/// Run `index` of the sequence; without slices if there are fewer runs.
__device__ inline Run find_run(const BatchArgs& batch, int sequence, int index) {
  const int end = batch.sequence_slices[sequence + 1];
  Run run = {batch.sequence_slices[sequence], batch.sequence_slices[sequence], 0, false};
  for (int i = 0; i <= index && run.slice_end < end; ++i) {
    run.slice_begin = run.slice_end;
    run.row_class = batch.slices[run.slice_begin].row_class;
    do {
      ++run.slice_end;
    } while (run.slice_end < end && batch.slices[run.slice_end].row_class == run.row_class);
    run.last = run.slice_end == end;
    if (i == index) return run;
  }
  run.slice_begin = run.slice_end = end;
  return run;
}

/// The rows of slices [first, end), at least one.
__device__ inline SequenceRange rows_of_slices(const BatchArgs& batch, int first, int end) {
  const int begin = batch.slices[first].row_begin;
  const SliceArgs last = batch.slices[end - 1];
  return {begin, last.row_begin + last.row_count - begin};
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SLICE_RUNS_H_
