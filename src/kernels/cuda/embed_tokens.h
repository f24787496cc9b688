// Rows of the embedding table of tokens that lie on the device, where it was decided which they
// are.
#ifndef CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_
#define CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Whether embed_tokens() decodes tables of this type: all but the formats with grids of vectors.
bool embeds_on_gpu(DType type);

/// y[r] = row tokens[places[r]] of the table, decoded to f32 with the bits of quant::decode(); row
/// 0 where that token is -1. The table lies where kernels reach it, the host's pinned memory
/// included; the rest on the device. One launch.
void embed_tokens(Stream& stream, const WeightView& table, const int32_t* tokens,
                  const int32_t* places, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_
