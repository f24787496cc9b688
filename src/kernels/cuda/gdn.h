// The gated delta net on a GPU: Ops::gdn_conv, Ops::gdn_scan and Ops::gdn_mix, with the same bits
// as the other back ends.
#ifndef CHIMERE_KERNELS_CUDA_GDN_H_
#define CHIMERE_KERNELS_CUDA_GDN_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/rounding_args.h"

namespace chimere::kernels::cuda {

/// Bytes of scratch memory that each function below needs. Its contents need not be preserved
/// between calls.
int64_t gdn_scratch_bytes(const GdnShape& shape, const BatchExtent& extent);

void gdn_conv(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, const float* weight,
              float eps, RecurrentView state, MatrixView qkv, uint8_t* scratch);

void gdn_scan(Stream& stream, const DeviceBatch& batch, const GdnShape& shape, ConstMatrixView qkv,
              ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
              RecurrentView state, MatrixView out, uint8_t* scratch);

/// Whether a step has no prefill rows and at most one run per sequence. gdn_mix is then one launch,
/// or two for head sizes and convolutions that gdn_decode_128 does not support, and one more if
/// rows are folded.
bool decode_only(const BatchExtent& extent);

/// Ops::gdn_mix. The result is also rounded if `rounded` has memory (gated_rms_norm() of norm.h).
/// No kernel since the stream's last copy may have written the states, because they are read before
/// the previous kernel has ended. `barrier_counters`: [n_sequences, n_k_heads] zeros, zero again
/// afterwards.
void gdn_mix(Stream& stream, const DeviceBatch& batch, const GdnShape& shape,
             const GdnOperands& operands, MatrixView qkv, ConstMatrixView alpha,
             ConstMatrixView beta, ConstMatrixView z, MatrixView out, const RoundedRows& rounded,
             uint8_t* scratch, uint32_t* barrier_counters);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_GDN_H_
