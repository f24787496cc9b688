// Embedding lookup for tokens that were chosen on the device and whose ids lie there.
#ifndef CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_
#define CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_

#include <cstdint>

#include "kernels/cuda/device/stream.h"
#include "tensor/view.h"

namespace chimere::kernels::cuda {

/// Whether embed_tokens() supports tables of this type: all but the formats with vector codebooks.
bool embeds_on_gpu(DType type);

/// y[r] = row tokens[places[r]] of the table, or row ~places[r] if that is negative (row 0 if the
/// token is -1), decoded to f32 with the bits of quant::decode(). The table may lie in device or in
/// pinned host memory; all else in device memory. One launch.
void embed_tokens(Stream& stream, const WeightView& table, const int32_t* tokens,
                  const int32_t* places, MatrixView y);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_EMBED_TOKENS_H_
