// Top-k logits and selected logits of rows on a GPU: Ops::top_logits and Ops::gather_logits, with
// the same bits.
#ifndef CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_
#define CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Bytes of scratch memory that top_logits() needs.
int64_t top_logits_scratch_bytes(int64_t rows, int64_t n_vocab, int32_t count);

/// Tiles of the vocabulary are reduced, then their results, until one tile is left: two launches
/// for up to 500,000 tokens and 2 to 32 logits. `masks`: [top.rows, mask_words(logits.cols)], or
/// nullptr. `masks`, `top` and `scratch` lie on the device.
void top_logits(Stream& stream, ConstMatrixView logits, const uint32_t* masks, TopLogits top,
                uint8_t* scratch);

/// One launch. `ids` and `selected` lie on the device.
void gather_logits(Stream& stream, MatrixView logits, const int32_t* ids, SelectedLogits selected);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_TOP_LOGITS_H_
