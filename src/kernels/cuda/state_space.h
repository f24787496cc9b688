// Convolutions over time and state-space recurrences on a GPU: Ops::causal_conv, Ops::ssd_scan and
// Ops::selective_scan, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_STATE_SPACE_H_
#define CHIMERE_KERNELS_CUDA_STATE_SPACE_H_

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"

namespace chimere::kernels::cuda {

/// Scratch memory of causal_conv().
int64_t conv_scratch_bytes(const ConvShape& shape, const BatchExtent& extent);
void causal_conv(Stream& stream, const DeviceBatch& batch, const ConvShape& shape,
                 const float* weight, const float* bias, RecurrentView state, MatrixView x,
                 uint8_t* scratch);
/// Scratch memory of ssd_scan(), aligned to 16 bytes.
int64_t ssd_scratch_bytes(const SsdShape& shape, const BatchExtent& extent);
void ssd_scan(Stream& stream, const DeviceBatch& batch, const SsdShape& shape,
              const SsdWeights& weights, ConstMatrixView xbc, ConstMatrixView dt,
              RecurrentView state, MatrixView out, uint8_t* scratch);
void selective_scan(Stream& stream, const DeviceBatch& batch, const SelectiveShape& shape,
                    const SelectiveWeights& weights, const SelectiveInputs& inputs,
                    RecurrentView state, MatrixView out);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STATE_SPACE_H_
