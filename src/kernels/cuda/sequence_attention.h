// Ops::attend_sequences on a GPU, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_H_
#define CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_H_

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// `rope`: rope_table() of the rows, or nullptr if heads are not rotated. Changes q and k.
void attend_sequences(Stream& stream, const DeviceBatch& batch, const SequenceAttentionShape& shape,
                      const float* rope, MatrixView q, MatrixView k, ConstMatrixView v,
                      MatrixView out);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SEQUENCE_ATTENTION_H_
