// Log-sum-exp statistics of rows on a GPU: Ops::log_sum_exp, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_H_
#define CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Bytes of scratch memory that log_sum_exp() needs.
int64_t log_sum_exp_scratch_bytes(int64_t rows, int64_t n_vocab);

/// logits [rows, n_vocab], sums [rows]; `sums` and `scratch` lie on the device. Two launches:
/// pieces of rows, then rows. Reads the logits once (993 KB per row of 248,320; the head has just
/// written them).
void log_sum_exp(Stream& stream, ConstMatrixView logits, LogSumExp* sums, uint8_t* scratch);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LOG_SUM_EXP_H_
