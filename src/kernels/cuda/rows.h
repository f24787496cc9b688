// Row-wise ops on a GPU: Ops::select_rows, Ops::shift_rows, Ops::activate, Ops::route and
// Ops::keep_top_p, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_ROWS_H_
#define CHIMERE_KERNELS_CUDA_ROWS_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/linear_decode.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// `ids`: [y.rows], in device memory.
void select_rows(Stream& stream, ConstMatrixView x, const int32_t* ids, MatrixView y);

void shift_rows(Stream& stream, const DeviceBatch& batch, ConstMatrixView x, RecurrentView state,
                MatrixView y);

/// `rounded`: also receives the rounded form of the result, all rows, which needs h.cols to be a
/// multiple of 32; or without memory.
void activate(Stream& stream, Activation f, MatrixView h, ConstMatrixView up,
              const RoundedRows& rounded);

void scale(Stream& stream, MatrixView x, float factor);
void add_bias(Stream& stream, MatrixView y, const float* bias);
void copy(Stream& stream, ConstMatrixView x, MatrixView y);
void multiply(Stream& stream, ConstMatrixView x, MatrixView y);

/// At most kMaxExperts experts (rows_args.h) and 32 per row. spec.bias is in device memory.
void route(Stream& stream, ConstMatrixView logits, const RoutingSpec& spec, const Routing& routing);

/// `rows`: the decode rows. All pointers are the device's.
void keep_top_p(Stream& stream, const Routing& routing, const RowSet& rows, float top_p,
                ExpertUse* use);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_ROWS_H_
