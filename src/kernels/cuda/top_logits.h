// The largest logits of rows on a GPU, and listed ones: Ops::top_logits and Ops::gather_logits with
// the same bits.
#ifndef CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_
#define CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

int64_t top_logits_scratch_bytes(int64_t rows, int64_t n_vocab, int32_t count);

/// A launch for the vocabulary's tiles, then for what these left, until one is left: two of up to
/// 500,000 tokens where 2 to 32 are wanted. `top` and `scratch` lie on the device.
void top_logits(Stream& stream, ConstMatrixView logits, TopLogits top, uint8_t* scratch);

/// One launch. `ids` and `listed` lie on the device.
void gather_logits(Stream& stream, MatrixView logits, const int32_t* ids, SelectedLogits selected);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_
