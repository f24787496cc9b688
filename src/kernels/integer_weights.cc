#include "kernels/integer_weights.h"

#include "quant/blocks.h"
#include "quant/codebooks.h"
#include "quant/quant.h"

namespace chimere::kernels {
namespace {

using quant::f16_to_f32;
using quant::kSuperBlock;

void unpack(const quant::BlockQ8_0& b, int8_t* q, float* s, float* /*m*/) {
  for (int i = 0; i < quant::kBlock; ++i) q[i] = b.qs[i];
  s[0] = f16_to_f32(b.d);
}

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
void unpack_scales(const Block& b, float* s, float* m) {
  for (int g = 0; g < 8; ++g) {
    const quant::ScaleMin sm = quant::scale_min(b.scales, g);
    s[g] = f16_to_f32(b.d) * static_cast<float>(sm.scale);
    m[g] = f16_to_f32(b.dmin) * static_cast<float>(sm.min);
  }
}

/// Nibbles of Q4_K and Q5_K: 32 bytes hold the low, then the high nibbles of two scale groups.
int nibble(const uint8_t* qs, int i) {
  const int byte = qs[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

void unpack(const quant::BlockQ4K& b, int8_t* q, float* s, float* m) {
  for (int i = 0; i < kSuperBlock; ++i) q[i] = static_cast<int8_t>(nibble(b.qs, i));
  unpack_scales(b, s, m);
}

void unpack(const quant::BlockQ5K& b, int8_t* q, float* s, float* m) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int high = (b.qh[i % 32] >> (i / 32)) & 1;
    q[i] = static_cast<int8_t>(nibble(b.qs, i) + 16 * high);
  }
  unpack_scales(b, s, m);
}

void unpack(const quant::BlockQ6K& b, int8_t* q, float* s, float* /*m*/) {
  for (int i = 0; i < kSuperBlock; ++i) {
    // Of each 128 elements: low nibbles of 64 bytes, then their high nibbles; 32 bytes of 2-bit
    // tops.
    const int half = i / 128;
    const int byte = b.ql[half * 64 + i % 64];
    const int low = i % 128 < 64 ? byte & 15 : byte >> 4;
    const int top = (b.qh[half * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    q[i] = static_cast<int8_t>(low + 16 * top - 32);
  }
  for (int g = 0; g < 16; ++g) s[g] = f16_to_f32(b.d) * static_cast<float>(b.scales[g]);
}

void unpack(const quant::BlockIq3S& b, int8_t* q, float* s, float* /*m*/) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const auto quad = static_cast<size_t>(i / 4);
    const size_t index = b.qs[quad] + 256U * ((b.qh[quad / 8] >> (quad % 8)) & 1U);
    const auto magnitude = static_cast<int8_t>(quant::kIq3SGrid[index] >> (i % 4 * 8));
    const bool negative = ((b.signs[i / 8] >> (i % 8)) & 1) != 0;
    q[i] = static_cast<int8_t>(negative ? -magnitude : magnitude);
  }
  for (int g = 0; g < 8; ++g) {
    const int scale = (b.scales[g / 2] >> (g % 2 * 4)) & 15;
    s[g] = f16_to_f32(b.d) * static_cast<float>(1 + 2 * scale);
  }
}

template <class Block>
void unpack_row(const uint8_t* row, int elements, int groups, int64_t n, int8_t* q, float* s,
                float* m) {
  const auto* block = reinterpret_cast<const Block*>(row);
  for (int64_t i = 0; i < n; i += elements, ++block, q += elements, s += groups, m += groups) {
    for (int g = 0; g < groups; ++g) m[g] = 0;
    unpack(*block, q, s, m);
  }
}

}  // namespace

void unpack_integer_weights(DType type, const uint8_t* row, int64_t n, int8_t* q, float* s,
                            float* m) {
  switch (type) {
    case DType::kQ8_0:
      return unpack_row<quant::BlockQ8_0>(row, 32, 1, n, q, s, m);
    case DType::kQ4_K:
      return unpack_row<quant::BlockQ4K>(row, 256, 8, n, q, s, m);
    case DType::kQ5_K:
      return unpack_row<quant::BlockQ5K>(row, 256, 8, n, q, s, m);
    case DType::kQ6_K:
      return unpack_row<quant::BlockQ6K>(row, 256, 16, n, q, s, m);
    case DType::kIQ3_S:
      return unpack_row<quant::BlockIq3S>(row, 256, 8, n, q, s, m);
    default:
      return;
  }
}

}  // namespace chimere::kernels
