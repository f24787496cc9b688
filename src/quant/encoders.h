// Encoders of one block of f32 to each writable format. Internal to the module: encode() dispatches
// by type.
#ifndef CHIMERE_QUANT_ENCODERS_H_
#define CHIMERE_QUANT_ENCODERS_H_

#include "quant/blocks.h"

namespace chimere::quant {

/// `x`: the block's 32 or 256 finite elements; `w`: their weights (none negative, not all zero).
void encode_block(const float* x, const float* w, BlockQ4_0& b);
void encode_block(const float* x, const float* w, BlockQ4_1& b);
void encode_block(const float* x, const float* w, BlockQ5_0& b);
void encode_block(const float* x, const float* w, BlockQ5_1& b);
void encode_block(const float* x, const float* w, BlockQ8_0& b);
void encode_block(const float* x, const float* w, BlockIq4Nl& b);
void encode_block(const float* x, const float* w, BlockMxfp4& b);
void encode_block(const float* x, const float* w, BlockQ2K& b);
void encode_block(const float* x, const float* w, BlockQ3K& b);
void encode_block(const float* x, const float* w, BlockQ4K& b);
void encode_block(const float* x, const float* w, BlockQ5K& b);
void encode_block(const float* x, const float* w, BlockQ6K& b);
void encode_block(const float* x, const float* w, BlockIq4Xs& b);
void encode_block(const float* x, const float* w, BlockIq3Xxs& b);
void encode_block(const float* x, const float* w, BlockIq3S& b);
void encode_block(const float* x, const float* w, BlockIq2Xxs& b);
void encode_block(const float* x, const float* w, BlockIq2Xs& b);
void encode_block(const float* x, const float* w, BlockIq2S& b);
void encode_block(const float* x, const float* w, BlockIq1S& b);
void encode_block(const float* x, const float* w, BlockIq1M& b);
void encode_block(const float* x, const float* w, BlockTq10& b);
void encode_block(const float* x, const float* w, BlockTq20& b);
void encode_block(const float* x, const float* w, BlockIq2K& b);
void encode_block(const float* x, const float* w, BlockIq3K& b);
void encode_block(const float* x, const float* w, BlockIq4K& b);
void encode_block(const float* x, const float* w, BlockIq5K& b);

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_ENCODERS_H_
