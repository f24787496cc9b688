// Token selection on a GPU: Ops::choose, with the same bits.
#ifndef CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_H_
#define CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_H_

#include <cstdint>

#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"

namespace chimere::kernels::cuda {

/// choices and chosen: [rows of top]. All arguments lie on the device. One launch.
void choose_tokens(Stream& stream, TopLogits top, const TokenChoice* choices, int32_t* chosen);

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CHOOSE_TOKEN_H_
