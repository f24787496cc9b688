#include "kernels/ref/kv_rounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/blocks.h"
#include "quant/quant.h"

namespace chimere::kernels::ref {
namespace {

constexpr uint16_t kF16NaN = 0x7E00;

/// Level of x in steps of d; 0 if d is 0.
int level(float x, float d, float low, float high) {
  if (d == 0) return 0;
  return static_cast<int>(std::rint(std::fmax(low, std::fmin(high, x / d))));
}

/// The element of the largest magnitude, the first in a tie; NaN if an element is not finite.
float extreme(const float* x) {
  float most = x[0];
  for (int i = 0; i < quant::kBlock; ++i) {
    if (!std::isfinite(x[i])) return NAN;
    if (std::fabs(x[i]) > std::fabs(most)) most = x[i];
  }
  return most;
}

void store_block(const float* x, quant::BlockQ8_0& b) {
  const float most = extreme(x);
  b = {kF16NaN, {}};
  if (std::isnan(most)) return;
  b.d = quant::f32_to_f16(std::fabs(most) / 127.0F);
  const float d = quant::f16_to_f32(b.d);
  for (int i = 0; i < quant::kBlock; ++i) {
    b.qs[i] = static_cast<int8_t>(level(x[i], d, -127, 127));
  }
}

void store_block(const float* x, quant::BlockQ4_0& b) {
  const float most = extreme(x);
  b.d = std::isnan(most) ? kF16NaN : quant::f32_to_f16(most / -8.0F);
  const float d = std::isnan(most) ? 0.0F : quant::f16_to_f32(b.d);
  constexpr int kHalf = quant::kBlock / 2;
  for (int i = 0; i < kHalf; ++i) {
    const int low = level(x[i], d, -8, 7) + 8;
    const int high = level(x[i + kHalf], d, -8, 7) + 8;
    b.qs[i] = static_cast<uint8_t>(low | high << 4);
  }
}

template <class Block>
void store_blocks(const float* x, int n, uint8_t* dst) {
  for (int i = 0; i < n; i += quant::kBlock, dst += sizeof(Block)) {
    Block block;
    store_block(x + i, block);
    std::memcpy(dst, &block, sizeof block);
  }
}

}  // namespace

void rotate_head(float* x, int n) {
  const int block = n & -n;
  for (int h = 1; h < block; h *= 2) {
    for (int i = 0; i < n; ++i) {
      if ((i & h) != 0) continue;
      const float a = x[i];
      const float b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
  const float scale = 1.0F / std::sqrt(static_cast<float>(block));
  for (int i = 0; i < n; ++i) x[i] = x[i] * scale;
}

void store_head(DType type, const float* x, int n, uint8_t* dst) {
  switch (type) {
    case DType::kQ8_0:
      return store_blocks<quant::BlockQ8_0>(x, n, dst);
    case DType::kQ4_0:
      return store_blocks<quant::BlockQ4_0>(x, n, dst);
    case DType::kF32:
      std::memcpy(dst, x, static_cast<size_t>(n) * sizeof(float));
      return;
    default:
      break;
  }
  for (int i = 0; i < n; ++i) {
    const uint16_t half = type == DType::kF16 ? quant::f32_to_f16(x[i]) : quant::f32_to_bf16(x[i]);
    std::memcpy(dst + 2 * static_cast<int64_t>(i), &half, 2);
  }
}

}  // namespace chimere::kernels::ref
