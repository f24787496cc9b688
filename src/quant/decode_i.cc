// The i-quants: groups of 4 or 8 elements are entries of a codebook.
#include <cstring>

#include "quant/codebooks.h"
#include "quant/decoders.h"
#include "quant/quant.h"

namespace chimere::quant {
namespace {

// Elements of one grid entry: `scale` times the magnitude, negative where `signs` has a one.
template <typename Entry>
void put_group(Entry entry, unsigned signs, float scale, float* y) {
  for (unsigned j = 0; j < sizeof(Entry); ++j) {
    const float v = scale * static_cast<float>((entry >> (8 * j)) & 255U);
    y[j] = ((signs >> j) & 1U) != 0 ? -v : v;
  }
}

void put_ternary(uint64_t entry, bool negative_delta, float scale, float* y) {
  const float delta = negative_delta ? -kIq1Delta : kIq1Delta;
  for (unsigned j = 0; j < 8; ++j) {
    const auto v = static_cast<int8_t>((entry >> (8 * j)) & 255U);
    y[j] = scale * (static_cast<float>(v) + delta);
  }
}

uint32_t load_u32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float half_step_scale(float d, unsigned scale) { return d * (0.5F + static_cast<float>(scale)); }
float odd_scale(float d, unsigned scale) { return d * static_cast<float>(2 * scale + 1); }

}  // namespace

void decode_block(const BlockIq2Xxs& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    const uint32_t indices = load_u32(b.qs + 4 * s);
    const uint32_t rest = load_u32(b.qs + 4 * s + 2);
    const float scale = half_step_scale(d, rest >> 28) * 0.25F;
    for (int g = 0; g < 4; ++g) {
      put_group(kIq2XxsGrid[(indices >> (8 * g)) & 255U], even_signs((rest >> (7 * g)) & 127U),
                scale, y + s * 32 + g * 8);
    }
  }
}

void decode_block(const BlockIq2Xs& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int g = 0; g < 32; ++g) {
    const unsigned nibble = (b.scales[g / 4] >> (g % 4 / 2 * 4)) & 15U;
    put_group(kIq2XsGrid[b.qs[g] & 511U], even_signs(b.qs[g] >> 9),
              half_step_scale(d, nibble) * 0.25F, y + g * 8);
  }
}

void decode_block(const BlockIq2S& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int g = 0; g < 32; ++g) {
    const unsigned nibble = (b.scales[g / 4] >> (g % 4 / 2 * 4)) & 15U;
    const unsigned high = (b.qh[g / 4] >> (g % 4 * 2)) & 3U;
    put_group(kIq2SGrid[b.qs[g] | (high << 8)], b.signs[g], half_step_scale(d, nibble) * 0.25F,
              y + g * 8);
  }
}

void decode_block(const BlockIq3Xxs& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    const uint32_t rest = load_u32(b.scales_and_signs + 4 * s);
    const float scale = half_step_scale(d, rest >> 28) * 0.5F;
    for (int g = 0; g < 8; ++g) {
      const unsigned signs = even_signs((rest >> (g / 2 * 7)) & 127U);
      put_group(kIq3XxsGrid[b.qs[s * 8 + g]], signs >> (g % 2 * 4), scale, y + s * 32 + g * 4);
    }
  }
}

void decode_block(const BlockIq3S& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    const float scale = odd_scale(d, (b.scales[s / 2] >> (s % 2 * 4)) & 15U);
    for (int g = 0; g < 8; ++g) {
      const unsigned high = (b.qh[s] >> g) & 1U;
      const unsigned signs = b.signs[s * 4 + g / 2] >> (g % 2 * 4);
      put_group(kIq3SGrid[b.qs[s * 8 + g] | (high << 8)], signs, scale, y + s * 32 + g * 4);
    }
  }
}

void decode_block(const BlockIq1S& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    const unsigned rest = b.qh[s];
    const float scale = odd_scale(d, (rest >> 12) & 7U);
    for (int g = 0; g < 4; ++g) {
      const unsigned high = (rest >> (3 * g)) & 7U;
      put_ternary(kIq1Grid[b.qs[s * 4 + g] | (high << 8)], (rest & 0x8000U) != 0, scale,
                  y + s * 32 + g * 8);
    }
  }
}

void decode_block(const BlockIq1M& b, float* y) {
  const float d = f16_to_f32(iq1_m_scale(b));
  for (int g = 0; g < 32; ++g) {
    const int pair = g / 2;  // 16 elements share a 3-bit scale
    const float scale = odd_scale(d, iq1_m_step(b, pair));
    const unsigned high = (b.qh[pair] >> (g % 2 * 4)) & 15U;
    put_ternary(kIq1Grid[b.qs[g] | ((high & 7U) << 8)], (high & 8U) != 0, scale, y + g * 8);
  }
}

void decode_block(const BlockIq4Xs& b, float* y) {
  const float d = f16_to_f32(b.d);
  for (int s = 0; s < 8; ++s) {
    const float scale = d * static_cast<float>(iq4_xs_scale(b, s));
    for (int j = 0; j < 16; ++j) {
      const unsigned byte = b.qs[s * 16 + j];
      y[s * 32 + j] = scale * static_cast<float>(kIq4NlValues[byte & 15U]);
      y[s * 32 + 16 + j] = scale * static_cast<float>(kIq4NlValues[byte >> 4]);
    }
  }
}

}  // namespace chimere::quant
