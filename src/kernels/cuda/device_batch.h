// A step on a device: the addresses of its arrays, and the sizes that launch shapes depend on.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_BATCH_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_BATCH_H_

#include "kernels/api.h"
#include "kernels/cuda/batch_args.h"

namespace chimere::kernels::cuda {

/// Launches made for an extent cover every step whose extent is nowhere larger.
struct BatchExtent {
  int32_t n_rows = 0;
  int32_t n_sequences = 0;
  int32_t n_slices = 0;
  int32_t sequence_rows = 0;  ///< most rows of a sequence
  int32_t runs = 0;           ///< most runs of slices of one class in a sequence
  int32_t decode_rows = 0;    ///< most rows of a slice of decode rows
  int32_t prefill_rows = 0;   ///< most rows of a slice of prefill rows
  int32_t positions = 0;      ///< most positions that a row sees
  int32_t folds = 0;          ///< 1: a sequence folds rows
  int32_t keeps = 0;          ///< 1: a row is kept

  bool operator==(const BatchExtent&) const = default;
};

BatchExtent extent_of(const BatchView& batch);

struct DeviceBatch {
  BatchArgs args;
  BatchExtent extent;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_BATCH_H_
