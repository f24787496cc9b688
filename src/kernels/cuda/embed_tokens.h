#pragma once
#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
namespace chimere::kernels::cuda { inline bool embeds_on_card(DType) { return false; } inline void embed_tokens(Stream&, const WeightView&, const int32_t*, const int32_t*, MatrixView) {} }
