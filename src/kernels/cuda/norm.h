// Norms on a GPU: Ops::rms_norm, Ops::layer_norm, Ops::gated_rms_norm, Ops::group_rms_norm and
// Ops::gated_group_rms_norm, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_NORM_H_
#define CHIMERE_KERNELS_CUDA_NORM_H_

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/rounding_args.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// x.cols is at most 12,000, because a row is kept in shared memory. If `rounded` has memory, y is
/// also rounded like round_rows() (linear_decode.h), and x.cols must be a multiple of 32.
void rms_norm(Stream& stream, ConstMatrixView x, const float* weight, float eps, MatrixView y,
              const RoundedRows& rounded);

/// x.cols is at most 12,000; `bias` may be nullptr.
void layer_norm(Stream& stream, ConstMatrixView x, const float* weight, const float* bias,
                float eps, MatrixView y);

/// head_dim is at most 256, and a multiple of 32 if `rounded` has memory.
void gated_rms_norm(Stream& stream, ConstMatrixView x, ConstMatrixView z, const float* weight,
                    int head_dim, float eps, MatrixView y, const RoundedRows& rounded);

void group_rms_norm(Stream& stream, ConstMatrixView x, const float* weight, int group, float eps,
                    MatrixView y);

/// Whether gated_group_rms_norm() takes groups of this size.
bool takes_gated_group(int group);
/// Ops::gated_group_rms_norm(). If `rounded` has memory, z is also rounded.
void gated_group_rms_norm(Stream& stream, ConstMatrixView x, const float* weight, int group,
                          float eps, MatrixView z, const RoundedRows& rounded);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_NORM_H_
