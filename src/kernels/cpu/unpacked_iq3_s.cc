#include "kernels/cpu/unpacked_iq3_s.h"

#include <array>
#include <cstring>

#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu {
namespace {

/// 15 in the bytes whose bit is set: q of the negative element is 15 - q.
constexpr std::array<uint32_t, 16> kFlip = [] {
  std::array<uint32_t, 16> table{};
  for (uint32_t i = 0; i < 16; ++i) {
    for (uint32_t c = 0; c < 4; ++c) table[i] |= (i >> c & 1U) * (15U << (8 * c));
  }
  return table;
}();

/// The four q of quad j of group g.
uint32_t quad(const quant::BlockIq3S& b, int g, int j) {
  const uint32_t index = b.qs[8 * g + j] | (static_cast<uint32_t>(b.qh[g]) >> j & 1U) << 8;
  const uint32_t signs = static_cast<uint32_t>(b.signs[4 * g + j / 2]) >> (4 * (j % 2)) & 15U;
  // Half of magnitude + 15, which is even.
  const uint32_t positive = (quant::kIq3SGrid[index] + 0x0F0F0F0FU) >> 1;
  return positive ^ kFlip[signs];
}

}  // namespace

void unpack_iq3_s(const uint8_t* rows, int64_t n, UnpackedIq3S* out) {
  const int64_t blocks = n / UnpackedIq3S::kElements;
  for (int64_t i = 0; i < blocks; ++i) {
    UnpackedIq3S& to = out[i];
    std::memset(to.scales, 0, sizeof to.scales);
    for (int r = 0; r < UnpackedIq3S::kRows; ++r) {
      quant::BlockIq3S b;
      std::memcpy(&b, rows + (r * blocks + i) * static_cast<int64_t>(sizeof b), sizeof b);
      to.d[r] = b.d;
      for (int g = 0; g < 8; ++g) {
        to.scales[g] |= (static_cast<uint32_t>(b.scales[g / 2]) >> (4 * (g % 2)) & 15U) << (4 * r);
        for (int j = 0; j < 4; ++j) {
          const uint32_t bytes = quad(b, g, j) | quad(b, g, j + 4) << 4;
          std::memcpy(to.q[g] + 32 * j + 4 * r, &bytes, 4);
        }
      }
    }
  }
}

}  // namespace chimere::kernels::cpu
