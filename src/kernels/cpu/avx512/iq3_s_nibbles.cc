#include "kernels/cpu/avx512/iq3_s_nibbles.h"

#include "quant/codebooks.h"

namespace chimere::kernels::cpu::avx512 {

alignas(64) const std::array<uint8_t, 1024> kIq3SNibbles = [] {
  std::array<uint8_t, 1024> t{};
  for (uint32_t i = 0; i < 512; ++i) {
    const uint32_t entry = quant::kIq3SGrid[i];
    t[i] = static_cast<uint8_t>((entry & 15U) | ((entry >> 8U & 15U) << 4U));
    t[512 + i] = static_cast<uint8_t>((entry >> 16U & 15U) | ((entry >> 24U & 15U) << 4U));
  }
  return t;
}();

}  // namespace chimere::kernels::cpu::avx512
