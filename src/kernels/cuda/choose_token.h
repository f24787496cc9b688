#pragma once
#include "kernels/api.h"
#include "kernels/cuda/device/stream.h"
namespace chimere::kernels::cuda { inline void choose_tokens(Stream&, TopLogits, const TokenChoice*, int32_t*) {} }
