// Activations of prefill rows as f16 on a GPU.
#ifndef CHIMERE_KERNELS_CUDA_HALF_ROWS_H_
#define CHIMERE_KERNELS_CUDA_HALF_ROWS_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/half_rows_args.h"
#include "kernels/cuda/linear_decode.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Bytes of `rows` rows of n activations.
int64_t half_rows_bytes(int64_t rows, int64_t n);
/// Lays out HalfRows in that many bytes, aligned to 16.
HalfRows half_rows_at(uint8_t* memory, int64_t rows, int64_t n);

/// Rounds the rows of x that `rows` names (docs/numerics.md, rule 9). x.cols is a multiple of 32.
void half_rows(Stream& stream, ConstMatrixView x, const RowSet& rows, const HalfRows& to);

/// The same for all rows of x; rows from `other_from` on have only other_n elements.
void half_rows_of_two(Stream& stream, ConstMatrixView x, int64_t other_from, int64_t n,
                      int64_t other_n, const HalfRows& to);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_HALF_ROWS_H_
