// Decoders of one block of each format to f32. Internal to the module: decode() dispatches by type.
#ifndef CHIMERE_QUANT_DECODERS_H_
#define CHIMERE_QUANT_DECODERS_H_

#include "quant/blocks.h"

namespace chimere::quant {

/// `y` receives the block's 32 or 256 elements. Float operations are in the order of ggml's
/// reference decoder, so results are bit-identical.
void decode_block(const BlockQ4_0& b, float* y);
void decode_block(const BlockQ4_1& b, float* y);
void decode_block(const BlockQ5_0& b, float* y);
void decode_block(const BlockQ5_1& b, float* y);
void decode_block(const BlockQ8_0& b, float* y);
void decode_block(const BlockMxfp4& b, float* y);
void decode_block(const BlockIq4Nl& b, float* y);
void decode_block(const BlockQ2K& b, float* y);
void decode_block(const BlockQ3K& b, float* y);
void decode_block(const BlockQ4K& b, float* y);
void decode_block(const BlockQ5K& b, float* y);
void decode_block(const BlockQ6K& b, float* y);
void decode_block(const BlockIq2Xxs& b, float* y);
void decode_block(const BlockIq2Xs& b, float* y);
void decode_block(const BlockIq2S& b, float* y);
void decode_block(const BlockIq3Xxs& b, float* y);
void decode_block(const BlockIq3S& b, float* y);
void decode_block(const BlockIq1S& b, float* y);
void decode_block(const BlockIq1M& b, float* y);
void decode_block(const BlockIq4Xs& b, float* y);
void decode_block(const BlockTq10& b, float* y);
void decode_block(const BlockTq20& b, float* y);
void decode_block(const BlockIq2K& b, float* y);
void decode_block(const BlockIq3K& b, float* y);
void decode_block(const BlockIq4K& b, float* y);
void decode_block(const BlockIq5K& b, float* y);

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_DECODERS_H_
