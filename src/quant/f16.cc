#include <bit>

#include "quant/quant.h"

namespace chimere::quant {

// Both directions agree with the F16C instructions on every input, NaN included.
float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 31U;
  const uint32_t mantissa = h & 0x3ffU;
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x400000U : 0;
    return std::bit_cast<float>(sign | 0x7f800000U | quiet | (mantissa << 13));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in f32
    return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24F) |
                                sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  }
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65520 and above
  if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 leaves the rounded subnormal's bits low
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<uint16_t>(sign | ((magnitude - (112U << 23) + 0xfffU + odd) >> 13));
}

uint16_t f32_to_bf16(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((u >> 16) | 64U);  // quiet NaN
  return static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

}  // namespace chimere::quant
