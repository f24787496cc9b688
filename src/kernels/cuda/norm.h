// Norms on a GPU: Ops::rms_norm and Ops::gated_rms_norm, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_NORM_H_
#define CHIMERE_KERNELS_CUDA_NORM_H_

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/rounding_args.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// x.cols is at most 12,000: a row lies in shared memory. Where `rounded` has memory, y is also
/// rounded as round_rows() (linear_decode.h) does it; x.cols is a multiple of 32 then.
void rms_norm(Stream& stream, ConstMatrixView x, const float* weight, float eps, MatrixView y,
              const RoundedRows& rounded);

/// head_dim is at most 256, and a multiple of 32 where `rounded` has memory.
void gated_rms_norm(Stream& stream, ConstMatrixView x, ConstMatrixView z, const float* weight,
                    int head_dim, float eps, MatrixView y, const RoundedRows& rounded);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_NORM_H_
