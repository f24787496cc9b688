// The ternary formats, and IQ2_K to IQ5_K.
#include "quant/codebooks.h"
#include "quant/decoders.h"
#include "quant/quant.h"

namespace chimere::quant {
namespace {

constexpr int kIqkSub = 16;

template <class Block>
void decode_ternary(const Block& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int i = 0; i < kSuperBlock; ++i) y[i] = static_cast<float>(ternary(b, i)) * d;
}

template <class Block, size_t kValues>
void decode_iqk(const Block& b, const std::array<int8_t, kValues>& values, int shift, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < kSuperBlock / kIqkSub; ++s) {
    const float scale = d * static_cast<float>(iqk_scale(b, s));
    const int added = ((b.extra >> s) & 1) != 0 ? shift : 0;
    for (int i = s * kIqkSub; i < (s + 1) * kIqkSub; ++i) {
      y[i] = scale * static_cast<float>(values[iqk_index(b, i)] + added);
    }
  }
}

}  // namespace

void decode_block(const BlockTq10& b, float* y) { decode_ternary(b, y); }
void decode_block(const BlockTq20& b, float* y) { decode_ternary(b, y); }
void decode_block(const BlockIq2K& b, float* y) { decode_iqk(b, kIq2KValues, kIq2KShift, y); }
void decode_block(const BlockIq3K& b, float* y) { decode_iqk(b, kIq3KValues, kIq3KShift, y); }
void decode_block(const BlockIq4K& b, float* y) { decode_iqk(b, kIq4NlValues, kIq4KShift, y); }
void decode_block(const BlockIq5K& b, float* y) { decode_iqk(b, kIq5KValues, kIq5KShift, y); }

}  // namespace chimere::quant
