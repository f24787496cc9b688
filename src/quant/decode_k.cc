// The K-quants: super-blocks of 256 whose sub-blocks have integer scales.
#include "quant/decoders.h"
#include "quant/quant.h"

namespace chimere::quant {
// Q2_K, Q3_K: byte l of a half's 32 bytes holds elements l, 32 + l, 64 + l, 96 + l of its 128, two
// bits each.
void decode_block(const BlockQ2K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s] & 15);
    const float minimum = dmin * static_cast<float>(b.scales[s] >> 4);
    const uint8_t* qs = b.qs + s / 8 * 32 + s % 2 * 16;
    const int shift = s % 8 / 2 * 2;
    for (int l = 0; l < 16; ++l) {
      y[s * 16 + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - minimum;
    }
  }
}

void decode_block(const BlockQ3K& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(q3_scale(b.scales, s));
    const uint8_t* qs = b.qs + s / 8 * 32 + s % 2 * 16;
    const uint8_t* high = b.hmask + s % 2 * 16;
    const int shift = s % 8 / 2 * 2;
    for (int l = 0; l < 16; ++l) {
      const int q = ((qs[l] >> shift) & 3) - (((high[l] >> (s / 2)) & 1) != 0 ? 0 : 4);
      y[s * 16 + l] = scale * static_cast<float>(q);
    }
  }
}

// Q4_K, Q5_K: 32 bytes hold two sub-blocks, the even one in the low nibbles.
void decode_block(const BlockQ4K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.scales, s);
    const float scale = d * static_cast<float>(sm.scale);
    const float minimum = dmin * static_cast<float>(sm.min);
    const uint8_t* qs = b.qs + s / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      y[s * 32 + l] = scale * static_cast<float>((qs[l] >> (s % 2 * 4)) & 15) - minimum;
    }
  }
}

void decode_block(const BlockQ5K& b, float* y) {
  const float d = f16_to_f32(b.d);
  const float dmin = f16_to_f32(b.dmin);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sm = scale_min(b.scales, s);
    const float scale = d * static_cast<float>(sm.scale);
    const float minimum = dmin * static_cast<float>(sm.min);
    const uint8_t* qs = b.qs + s / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      const int q = ((qs[l] >> (s % 2 * 4)) & 15) | (((b.qh[l] >> s) & 1) << 4);
      y[s * 32 + l] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q6_K, a half of 128 elements: quarter r (32 elements) has its low nibbles in 32 bytes of ql (r
// even the first 32, odd the next; r < 2 the low nibble, else the high), its top bits in bits 2 r
// of the 32 bytes of qh.
void decode_block(const BlockQ6K& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 16; ++s) {
    const float scale = d * static_cast<float>(b.scales[s]);
    const int half = s / 8;
    const int quarter = s % 8 / 2;
    const int first = s % 2 * 16;
    const uint8_t* ql = b.ql + half * 64 + quarter % 2 * 32 + first;
    const uint8_t* qh = b.qh + half * 32 + first;
    for (int l = 0; l < 16; ++l) {
      const int low = (ql[l] >> (quarter / 2 * 4)) & 15;
      const int high = (qh[l] >> (quarter * 2)) & 3;
      y[s * 16 + l] = scale * static_cast<float>((low | (high << 4)) - 32);
    }
  }
}

}  // namespace chimere::quant
