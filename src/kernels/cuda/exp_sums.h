// Sums of exponentials of rows on a card: Ops::exp_sums with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_EXP_SUMS_H_
#define CHIMERE_KERNELS_CUDA_EXP_SUMS_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

int64_t exp_sums_scratch_bytes(int64_t rows, int64_t n_vocab);

/// A launch for the pieces, one for the rows. `sums` and `scratch` lie on the device. Bytes: the
/// logits once (993 KB a row of 248,320, which the head has just written).
void exp_sums(Stream& stream, ConstMatrixView logits, ExpSums* sums, uint8_t* scratch);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_EXP_SUMS_H_
