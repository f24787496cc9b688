#include "kernels/cuda/pack_weights.h"

#include <array>
#include <cstring>

#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cuda {
namespace {

/// The planes of a packed row.
struct Planes {
  std::array<uint8_t*, 3> at;
  std::array<int, 3> unit;
  uint8_t* super;
  int super_unit;

  uint8_t* of(int plane, int64_t block32) const { return at[plane] + block32 * unit[plane]; }
  uint8_t* of_super(int64_t block256) const { return super + block256 * super_unit; }
};

Planes planes_of(DType type, int64_t n_in, uint8_t* row) {
  const PackedLayout l = packed_layout(type);
  Planes p{};
  for (int i = 0; i < 3; ++i) {
    p.at[i] = row;
    p.unit[i] = l.plane[i];
    row += n_in / 32 * l.plane[i];
  }
  p.super = row;
  p.super_unit = l.super;
  return p;
}

template <class Word>
Word load(const void* p) {
  Word v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Word>
void store(uint8_t* p, Word v) {
  std::memcpy(p, &v, sizeof v);
}

// A word holds four or eight elements, one per byte, so that one operation handles all of them.
constexpr uint64_t kLowNibbles = 0x0F0F0F0F0F0F0F0FU;
constexpr uint32_t kOnes = 0x01010101U;

/// Packs bits `shift` to `shift` + 3 of 2 * kHalf bytes: byte i gets element i low, i + kHalf high.
template <int kHalf>
void put_nibbles(const uint8_t* v, int shift, uint8_t* dst) {
  for (int i = 0; i < kHalf; i += 8) {
    const uint64_t low = (load<uint64_t>(v + i) >> shift) & kLowNibbles;
    const uint64_t high = (load<uint64_t>(v + kHalf + i) >> shift) & kLowNibbles;
    store(dst + i, low | high << 4U);
  }
}

/// Packs bit `shift` of 32 bytes: element 4 j + b to bit 8 b + j.
void put_bits(const uint8_t* v, int shift, uint8_t* dst) {
  uint32_t bits = 0;
  for (int j = 0; j < 8; ++j) bits |= ((load<uint32_t>(v + 4 * j) >> shift) & kOnes) << j;
  store(dst, bits);
}

/// Packs bits `shift` and `shift` + 1 of 16 bytes: element 4 j + b to bits 8 b + 2 j.
void put_pairs(const uint8_t* v, int shift, uint8_t* dst) {
  uint32_t pairs = 0;
  for (int j = 0; j < 4; ++j) {
    pairs |= ((load<uint32_t>(v + 4 * j) >> shift) & (3 * kOnes)) << (2 * j);
  }
  store(dst, pairs);
}

/// Moves bit b of `four` to bit 8 b.
constexpr uint32_t spread(uint32_t four) { return (four * 0x00204081U) & kOnes; }

/// Bit i of `bits` belongs to element i: element 4 j + b goes to bit 8 b + j.
void put_spread_bits(uint32_t bits, uint8_t* dst) {
  uint32_t out = 0;
  for (int j = 0; j < 8; ++j) out |= spread((bits >> (4 * j)) & 15U) << j;
  store(dst, out);
}

void pack(const quant::BlockQ4_0& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  store(p.of(1, b), block.d);
}
void pack(const quant::BlockQ4_1& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  store(p.of(1, b), block.d);
  store(p.of(1, b) + 2, block.m);
}
void pack(const quant::BlockQ5_0& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  put_spread_bits(load<uint32_t>(block.qh), p.of(1, b));
  store(p.of(2, b), block.d);
}
void pack(const quant::BlockQ5_1& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  put_spread_bits(load<uint32_t>(block.qh), p.of(1, b));
  store(p.of(2, b), block.d);
  store(p.of(2, b) + 2, block.m);
}
void pack(const quant::BlockQ8_0& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  std::memcpy(p.of(1, b), block.qs + 16, 16);
  store(p.of(2, b), block.d);
}
void pack(const quant::BlockMxfp4& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  *p.of(1, b) = block.e;
}
void pack(const quant::BlockIq4Nl& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, b), block.qs, 16);
  store(p.of(1, b), block.d);
}

/// Common to Q4_K and Q5_K: nibbles (each 32 bytes hold a scale group in the low ones and the next
/// group in the high ones), scales and minima.
template <class Block>
void pack_nibbles_and_minima(const Block& block, int64_t b, const Planes& p, int scales_plane) {
  for (int g = 0; g < 8; ++g) {
    put_nibbles<16>(block.qs + g / 2 * 32, g % 2 * 4, p.of(0, 8 * b + g));
    const quant::ScaleMin sm = quant::scale_min(block.scales, g);
    uint8_t* to = p.of(scales_plane, 8 * b + g);
    to[0] = sm.scale;
    to[1] = sm.min;
  }
  store(p.of_super(b), block.d);
  store(p.of_super(b) + 2, block.dmin);
}
void pack(const quant::BlockQ4K& block, int64_t b, const Planes& p) {
  pack_nibbles_and_minima(block, b, p, 1);
}
void pack(const quant::BlockQ5K& block, int64_t b, const Planes& p) {
  pack_nibbles_and_minima(block, b, p, 2);
  for (int g = 0; g < 8; ++g) put_bits(block.qh, g, p.of(1, 8 * b + g));
}
void pack(const quant::BlockQ6K& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 16; ++g) {
    // Per 128 elements: low nibbles of 64 bytes, then their high nibbles; 32 bytes of 2-bit tops.
    const int half = g / 8;
    const int at = g % 8;
    put_nibbles<8>(block.ql + half * 64 + at % 4 * 16, at / 4 * 4, p.of(0, 8 * b) + 8 * g);
    put_pairs(block.qh + half * 32 + at % 2 * 16, at / 2 * 2, p.of(1, 8 * b) + 4 * g);
  }
  std::memcpy(p.of(2, 8 * b), block.scales, 16);
  store(p.of_super(b), block.d);
}

/// Q2_K and Q3_K. Per 128 elements, byte l of 32 holds elements l, 32 + l, 64 + l, 96 + l.
void pack_two_bits(const uint8_t* qs, int64_t b, const Planes& p) {
  for (int g = 0; g < 16; ++g) {
    put_pairs(qs + g / 8 * 32 + g % 2 * 16, g % 8 / 2 * 2, p.of(0, 8 * b) + 4 * g);
  }
}
void pack(const quant::BlockQ2K& block, int64_t b, const Planes& p) {
  pack_two_bits(block.qs, b, p);
  std::memcpy(p.of(1, 8 * b), block.scales, 16);
  store(p.of_super(b), block.d);
  store(p.of_super(b) + 2, block.dmin);
}
void pack(const quant::BlockQ3K& block, int64_t b, const Planes& p) {
  pack_two_bits(block.qs, b, p);
  for (int g = 0; g < 8; ++g) put_bits(block.hmask, g, p.of(1, 8 * b + g));
  for (int g = 0; g < 16; ++g) {
    p.of(2, 8 * b)[g] = static_cast<uint8_t>(quant::q3_scale(block.scales, g));
  }
  store(p.of_super(b), block.d);
}

void pack(const quant::BlockIq4Xs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 128);
  for (int g = 0; g < 8; ++g) {
    *p.of(1, 8 * b + g) = static_cast<uint8_t>(quant::iq4_xs_scale(block, g));
  }
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockIq3S& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  for (int g = 0; g < 8; ++g) {
    const auto of_file = load<uint32_t>(block.signs + 4 * g);
    uint32_t signs = 0;
    for (int j = 0; j < 8; ++j) signs |= spread((of_file >> (4 * j)) & 15U) << (7 - j);
    store(p.of(1, 8 * b + g), signs);
  }
  std::memcpy(p.of(2, 8 * b), block.qh, 8);
  std::memcpy(p.of_super(b), block.scales, 4);
  store(p.of_super(b) + 4, block.d);
}
void pack(const quant::BlockIq3Xxs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  std::memcpy(p.of(1, 8 * b), block.scales_and_signs, 32);
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockIq2Xxs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockIq2Xs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  std::memcpy(p.of_super(b), block.scales, 8);
  store(p.of_super(b) + 8, block.d);
}
void pack(const quant::BlockIq2S& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 16; ++g) {
    uint8_t* to = p.of(0, 8 * b) + 4 * g;
    std::memcpy(to, block.qs + 2 * g, 2);
    std::memcpy(to + 2, block.signs + 2 * g, 2);
    const unsigned high = (block.qh[g / 2] >> (g % 2 * 4)) & 15U;
    const unsigned scale = (block.scales[g / 2] >> (g % 2 * 4)) & 15U;
    p.of(1, 8 * b)[g] = static_cast<uint8_t>(high | (scale << 4U));
  }
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockIq1S& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 32);
  std::memcpy(p.of(1, 8 * b), block.qh, 16);
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockIq1M& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 32);
  std::memcpy(p.of(1, 8 * b), block.qh, 16);
  std::memcpy(p.of_super(b), block.scales, 8);
}

template <class Block>
void pack_ternary(const Block& block, int64_t b, const Planes& p) {
  std::array<uint8_t, quant::kSuperBlock> digits;
  for (int i = 0; i < quant::kSuperBlock; ++i) {
    digits[static_cast<size_t>(i)] = static_cast<uint8_t>(quant::ternary(block, i) + 1);
  }
  for (int g = 0; g < 16; ++g) put_pairs(digits.data() + 16 * g, 0, p.of(0, 8 * b) + 4 * g);
  store(p.of_super(b), block.d);
}
void pack(const quant::BlockTq10& block, int64_t b, const Planes& p) { pack_ternary(block, b, p); }
void pack(const quant::BlockTq20& block, int64_t b, const Planes& p) { pack_ternary(block, b, p); }

/// The scales of IQ2_K to IQ5_K in `plane`, d, and which groups add to the table.
template <class Block>
void pack_iqk_scales(const Block& block, int64_t b, const Planes& p, int plane) {
  for (int g = 0; g < 16; ++g) {
    p.of(plane, 8 * b)[g] = static_cast<uint8_t>(quant::iqk_scale(block, g));
  }
  store(p.of_super(b), block.d);
  store(p.of_super(b) + 2, block.extra);
}
void pack(const quant::BlockIq2K& block, int64_t b, const Planes& p) {
  pack_two_bits(block.qs, b, p);
  pack_iqk_scales(block, b, p, 1);
}
void pack(const quant::BlockIq3K& block, int64_t b, const Planes& p) {
  pack_two_bits(block.qs, b, p);
  for (int g = 0; g < 8; ++g) put_bits(block.qh, g, p.of(1, 8 * b + g));
  pack_iqk_scales(block, b, p, 2);
}

/// Nibbles of 16 elements: byte i has elements i and i + 8.
template <class Block>
void pack_iqk_nibbles(const Block& block, int64_t b, const Planes& p) {
  std::array<uint8_t, quant::kSuperBlock> index;
  for (int i = 0; i < quant::kSuperBlock; ++i) {
    index[static_cast<size_t>(i)] = static_cast<uint8_t>(quant::iqk_index(block, i) & 15U);
  }
  for (int g = 0; g < 16; ++g) put_nibbles<8>(index.data() + 16 * g, 0, p.of(0, 8 * b) + 8 * g);
}
void pack(const quant::BlockIq4K& block, int64_t b, const Planes& p) {
  pack_iqk_nibbles(block, b, p);
  pack_iqk_scales(block, b, p, 1);
}
void pack(const quant::BlockIq5K& block, int64_t b, const Planes& p) {
  pack_iqk_nibbles(block, b, p);
  for (int g = 0; g < 8; ++g) put_bits(block.qh, g, p.of(1, 8 * b + g));
  pack_iqk_scales(block, b, p, 2);
}

/// A block of IQ3_S that is packed in unpacked form (packed_type()).
struct UnpackedIq3S {
  quant::BlockIq3S block;
};

void pack(const UnpackedIq3S& unpacked, int64_t b, const Planes& p) {
  const quant::BlockIq3S& block = unpacked.block;
  for (int g = 0; g < 8; ++g) {
    const auto signs = load<uint32_t>(block.signs + 4 * g);
    std::array<uint32_t, 8> fours;
    for (unsigned j = 0; j < 8; ++j) {
      const unsigned index = block.qs[8 * g + j] | (((block.qh[g] >> j) & 1U) << 8U);
      // Elements are odd, so no bit crosses into a neighbour. (-e + 15) / 2 is 15 - (e + 15) / 2.
      const uint32_t halves = (quant::kIq3SGrid[index] + 15 * kOnes) >> 1U;
      fours[j] = halves ^ (15U * spread((signs >> (4 * j)) & 15U));
    }
    for (int j = 0; j < 4; ++j) {
      store(p.of(0, 8 * b + g) + 4 * j, fours[j] | fours[j + 4] << 4U);
    }
    const int scale = block.scales[g / 2] >> (g % 2 * 4) & 15;
    *p.of(1, 8 * b + g) = static_cast<uint8_t>(1 + 2 * scale);
  }
  store(p.of_super(b), block.d);
}

template <class Block>
void pack_blocks(const uint8_t* row, int64_t blocks, const Planes& p) {
  const auto* block = reinterpret_cast<const Block*>(row);
  for (int64_t b = 0; b < blocks; ++b) pack(block[b], b, p);
}

void pack_row(DType type, const uint8_t* row, int64_t n, const Planes& p) {
  const int64_t small = n / quant::kBlock;
  const int64_t large = n / quant::kSuperBlock;
  switch (type) {
    case DType::kQ4_0:
      return pack_blocks<quant::BlockQ4_0>(row, small, p);
    case DType::kQ4_1:
      return pack_blocks<quant::BlockQ4_1>(row, small, p);
    case DType::kQ5_0:
      return pack_blocks<quant::BlockQ5_0>(row, small, p);
    case DType::kQ5_1:
      return pack_blocks<quant::BlockQ5_1>(row, small, p);
    case DType::kQ8_0:
      return pack_blocks<quant::BlockQ8_0>(row, small, p);
    case DType::kMXFP4:
      return pack_blocks<quant::BlockMxfp4>(row, small, p);
    case DType::kIQ4_NL:
      return pack_blocks<quant::BlockIq4Nl>(row, small, p);
    case DType::kIQ4_XS:
      return pack_blocks<quant::BlockIq4Xs>(row, large, p);
    case DType::kQ2_K:
      return pack_blocks<quant::BlockQ2K>(row, large, p);
    case DType::kQ3_K:
      return pack_blocks<quant::BlockQ3K>(row, large, p);
    case DType::kQ4_K:
      return pack_blocks<quant::BlockQ4K>(row, large, p);
    case DType::kQ5_K:
      return pack_blocks<quant::BlockQ5K>(row, large, p);
    case DType::kQ6_K:
      return pack_blocks<quant::BlockQ6K>(row, large, p);
    case DType::kIQ1_S:
      return pack_blocks<quant::BlockIq1S>(row, large, p);
    case DType::kIQ1_M:
      return pack_blocks<quant::BlockIq1M>(row, large, p);
    case DType::kIQ2_XXS:
      return pack_blocks<quant::BlockIq2Xxs>(row, large, p);
    case DType::kIQ2_XS:
      return pack_blocks<quant::BlockIq2Xs>(row, large, p);
    case DType::kIQ2_S:
      return pack_blocks<quant::BlockIq2S>(row, large, p);
    case DType::kIQ3_XXS:
      return pack_blocks<quant::BlockIq3Xxs>(row, large, p);
    case DType::kIQ3_S:
      return pack_blocks<quant::BlockIq3S>(row, large, p);
    case DType::kIQ3_S_UNPACKED:
      return pack_blocks<UnpackedIq3S>(row, large, p);
    case DType::kTQ1_0:
      return pack_blocks<quant::BlockTq10>(row, large, p);
    case DType::kTQ2_0:
      return pack_blocks<quant::BlockTq20>(row, large, p);
    case DType::kIQ2_K:
      return pack_blocks<quant::BlockIq2K>(row, large, p);
    case DType::kIQ3_K:
      return pack_blocks<quant::BlockIq3K>(row, large, p);
    case DType::kIQ4_K:
      return pack_blocks<quant::BlockIq4K>(row, large, p);
    case DType::kIQ5_K:
      return pack_blocks<quant::BlockIq5K>(row, large, p);
    default:
      return;
  }
}

}  // namespace

int64_t packed_row_bytes(DType type, int64_t n_in) {
  return takes_integer_dot(type) ? packed_integer_row_bytes(type, n_in) : row_bytes(type, n_in);
}

void pack_rows(const WeightView& w, int64_t begin, int64_t count, uint8_t* dst, bool unpacked) {
  const DType type = packed_type(w.type, unpacked);
  const int64_t stride = packed_row_bytes(type, w.n_in);
  if (!takes_integer_dot(w.type)) {
    std::memcpy(dst, w.row(begin), static_cast<size_t>(count * stride));
    return;
  }
  for (int64_t o = 0; o < count; ++o) {
    uint8_t* const row = dst + o * stride;
    const Planes p = planes_of(type, w.n_in, row);
    pack_row(type, w.row(begin + o), w.n_in, p);
    uint8_t* const end = p.of_super(w.n_in / quant::kSuperBlock);
    std::memset(end, 0, static_cast<size_t>(row + stride - end));
  }
}

std::vector<uint32_t> codebook_words() {
  std::vector<uint32_t> words(kCodebookWords);
  auto put = [&](DType type, const auto& grid) {
    std::memcpy(words.data() + codebook_place(type).begin, grid.data(), sizeof grid);
  };
  put(DType::kIQ2_XXS, quant::kIq2XxsGrid);
  put(DType::kIQ2_XS, quant::kIq2XsGrid);
  put(DType::kIQ2_S, quant::kIq2SGrid);
  put(DType::kIQ3_XXS, quant::kIq3XxsGrid);
  put(DType::kIQ3_S, quant::kIq3SGrid);
  // 8 element + 1 with a bias of 128, so that subtracting 2 never borrows from a neighbour.
  std::array<uint64_t, 2048> ternary;
  for (size_t i = 0; i < ternary.size(); ++i) {
    ternary[i] = 0;
    for (unsigned j = 0; j < 8; ++j) {
      const auto element = static_cast<int8_t>(quant::kIq1Grid[i] >> (8 * j));
      ternary[i] |= static_cast<uint64_t>(8 * element + 129) << (8 * j);
    }
  }
  put(DType::kIQ1_S, ternary);
  return words;
}

}  // namespace chimere::kernels::cuda
