#include "kernels/cuda/pack_weights.h"

#include <array>
#include <cstring>

#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"
#include "kernels/integer_weights.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cuda {
namespace {

using quant::kSuperBlock;

/// Where a row's planes go.
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

/// The four lowest bits of 2 * half elements (16 or 8): element i low, i + half high in byte i.
void put_nibbles(const uint8_t* v, int half, uint8_t* dst) {
  for (int i = 0; i < half; ++i) {
    dst[i] = static_cast<uint8_t>((v[i] & 15U) | ((v[i + half] & 15U) << 4U));
  }
}

/// Bit `bit` of 32 elements: element 4 j + b in bit 8 b + j.
void put_bits(const uint8_t* v, int bit, uint8_t* dst) {
  std::memset(dst, 0, 4);
  for (unsigned i = 0; i < 32; ++i) {
    dst[i % 4] = static_cast<uint8_t>(dst[i % 4] | (((v[i] >> bit) & 1U) << (i / 4)));
  }
}

/// Bits `bit` and `bit` + 1 of 16 elements: element 4 j + b in bits 8 b + 2 j.
void put_pairs(const uint8_t* v, int bit, uint8_t* dst) {
  std::memset(dst, 0, 4);
  for (unsigned i = 0; i < 16; ++i) {
    dst[i % 4] = static_cast<uint8_t>(dst[i % 4] | (((v[i] >> bit) & 3U) << (i / 4 * 2)));
  }
}

/// What is added to rule 4's integers to make them the unsigned ones of the file.
int offset_of(DType t) {
  switch (t) {
    case DType::kQ4_0:
      return 8;
    case DType::kQ5_0:
      return 16;
    case DType::kQ6_K:
      return 32;
    case DType::kQ3_K:
      return 4;
    default:
      return 0;
  }
}

/// The integers of plain formats: bits of the integers themselves.
void pack_plain_integers(DType type, const int8_t* q, int64_t n, const Planes& p) {
  const int offset = offset_of(type);
  for (int64_t b = 0; b < n / 32; ++b) {
    std::array<uint8_t, 32> v;
    for (int i = 0; i < 32; ++i) v[i] = static_cast<uint8_t>(q[32 * b + i] + offset);
    switch (type) {
      case DType::kQ8_0:
        std::memcpy(p.of(0, b), v.data(), 16);
        std::memcpy(p.of(1, b), v.data() + 16, 16);
        break;
      case DType::kQ6_K:
        for (int h = 0; h < 2; ++h) {
          put_nibbles(v.data() + 16 * h, 8, p.of(0, b) + 8 * h);
          put_pairs(v.data() + 16 * h, 4, p.of(1, b) + 4 * h);
        }
        break;
      case DType::kQ2_K:
      case DType::kQ3_K:
        for (int h = 0; h < 2; ++h) put_pairs(v.data() + 16 * h, 0, p.of(0, b) + 4 * h);
        if (type == DType::kQ3_K) put_bits(v.data(), 2, p.of(1, b));
        break;
      default:  // 4 bits, and a fifth
        put_nibbles(v.data(), 16, p.of(0, b));
        if (p.unit[1] == 4 && type != DType::kQ4_1) put_bits(v.data(), 4, p.of(1, b));
    }
  }
}

/// Formats of blocks of 32 with nibbles that are indices, and the scales of all blocks of 32.
/// `scales_at` is where a block's d (and m) begin, `bytes` how many bytes they have.
void pack_block_scales(const uint8_t* row, int64_t block_bytes, int bytes, int64_t n,
                       const Planes& p, int plane) {
  for (int64_t b = 0; b < n / 32; ++b) std::memcpy(p.of(plane, b), row + b * block_bytes, bytes);
}

void pack_nibble_indices(const uint8_t* row, int64_t block_bytes, int at, int64_t n,
                         const Planes& p) {
  for (int64_t b = 0; b < n / 32; ++b) std::memcpy(p.of(0, b), row + b * block_bytes + at, 16);
}

void pack_super(const quant::BlockQ4K& block, int64_t b, const Planes& p, int scales_plane) {
  for (int g = 0; g < 8; ++g) {
    const quant::ScaleMin sm = quant::scale_min(block.scales, g);
    uint8_t* to = p.of(scales_plane, 8 * b + g);
    to[0] = sm.scale;
    to[1] = sm.min;
  }
  std::memcpy(p.of_super(b), &block.d, 2);
  std::memcpy(p.of_super(b) + 2, &block.dmin, 2);
}

void pack_block(const quant::BlockQ4K& block, int64_t b, const Planes& p) {
  pack_super(block, b, p, 1);
}
void pack_block(const quant::BlockQ5K& block, int64_t b, const Planes& p) {
  quant::BlockQ4K head;
  head.d = block.d;
  head.dmin = block.dmin;
  std::memcpy(head.scales, block.scales, sizeof head.scales);
  pack_super(head, b, p, 2);
}
void pack_block(const quant::BlockQ6K& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(2, 8 * b), block.scales, 16);
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockQ2K& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(1, 8 * b), block.scales, 16);
  std::memcpy(p.of_super(b), &block.d, 2);
  std::memcpy(p.of_super(b) + 2, &block.dmin, 2);
}
void pack_block(const quant::BlockQ3K& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 16; ++g) {
    p.of(2, 8 * b)[g] = static_cast<uint8_t>(quant::q3_scale(block.scales, g));
  }
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq4Xs& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 8; ++g) {
    // The file's nibbles: 16 bytes for 32 elements, as here.
    std::memcpy(p.of(0, 8 * b + g), block.qs + 16 * g, 16);
    *p.of(1, 8 * b + g) = static_cast<uint8_t>(quant::iq4_xs_scale(block, g));
  }
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq3S& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 8; ++g) {
    std::memcpy(p.of(0, 8 * b + g), block.qs + 8 * g, 8);
    uint32_t signs = 0;
    for (unsigned i = 0; i < 32; ++i) {
      const uint32_t sign = (block.signs[4 * g + i / 8] >> (i % 8)) & 1U;
      signs |= sign << (8 * (i % 4) + 7 - i / 4);
    }
    std::memcpy(p.of(1, 8 * b + g), &signs, 4);
    *p.of(2, 8 * b + g) = block.qh[g];
  }
  std::memcpy(p.of_super(b), block.scales, 4);
  std::memcpy(p.of_super(b) + 4, &block.d, 2);
}
void pack_block(const quant::BlockIq3Xxs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  std::memcpy(p.of(1, 8 * b), block.scales_and_signs, 32);
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq2Xxs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq2Xs& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 64);
  std::memcpy(p.of_super(b), block.scales, 8);
  std::memcpy(p.of_super(b) + 8, &block.d, 2);
}
void pack_block(const quant::BlockIq2S& block, int64_t b, const Planes& p) {
  for (int g = 0; g < 16; ++g) {
    uint8_t* to = p.of(0, 8 * b) + 4 * g;
    std::memcpy(to, block.qs + 2 * g, 2);
    std::memcpy(to + 2, block.signs + 2 * g, 2);
    const unsigned high = (block.qh[g / 2] >> (g % 2 * 4)) & 15U;
    const unsigned scale = (block.scales[g / 2] >> (g % 2 * 4)) & 15U;
    p.of(1, 8 * b)[g] = static_cast<uint8_t>(high | (scale << 4U));
  }
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq1S& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 32);
  std::memcpy(p.of(1, 8 * b), block.qh, 16);
  std::memcpy(p.of_super(b), &block.d, 2);
}
void pack_block(const quant::BlockIq1M& block, int64_t b, const Planes& p) {
  std::memcpy(p.of(0, 8 * b), block.qs, 32);
  std::memcpy(p.of(1, 8 * b), block.qh, 16);
  std::memcpy(p.of_super(b), block.scales, 8);
}

/// IQ3_S, wide.
void pack_odd_integers(const uint8_t* row, const int8_t* q, int64_t n, const Planes& p) {
  for (int64_t b = 0; b < n / 32; ++b) {
    std::array<uint8_t, 32> v;
    for (int i = 0; i < 32; ++i) v[i] = static_cast<uint8_t>((q[32 * b + i] + 15) / 2);
    put_nibbles(v.data(), 16, p.of(0, b));
  }
  for (int64_t b = 0; b < n / kSuperBlock; ++b) {
    quant::BlockIq3S block;
    std::memcpy(&block, row + b * static_cast<int64_t>(sizeof block), sizeof block);
    for (int g = 0; g < 8; ++g) {
      const int scale = block.scales[g / 2] >> (g % 2 * 4) & 15;
      *p.of(1, 8 * b + g) = static_cast<uint8_t>(1 + 2 * scale);
    }
    std::memcpy(p.of_super(b), &block.d, 2);
  }
}

template <class Block>
void pack_blocks(const uint8_t* row, int64_t n, const Planes& p) {
  for (int64_t b = 0; b < n / kSuperBlock; ++b) {
    Block block;
    std::memcpy(&block, row + b * static_cast<int64_t>(sizeof block), sizeof block);
    pack_block(block, b, p);
  }
}

/// The formats whose packed integers are bits of rule 4's.
bool has_plain_integers(DType t) {
  switch (t) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0:
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return true;
    default:
      return false;
  }
}

void pack_scales(DType type, const uint8_t* row, int64_t n, const Planes& p) {
  switch (type) {
    case DType::kQ4_0:
      return pack_block_scales(row, sizeof(quant::BlockQ4_0), 2, n, p, 1);
    case DType::kQ4_1:
      return pack_block_scales(row, sizeof(quant::BlockQ4_1), 4, n, p, 1);
    case DType::kQ5_0:
      return pack_block_scales(row, sizeof(quant::BlockQ5_0), 2, n, p, 2);
    case DType::kQ5_1:
      return pack_block_scales(row, sizeof(quant::BlockQ5_1), 4, n, p, 2);
    case DType::kQ8_0:
      return pack_block_scales(row, sizeof(quant::BlockQ8_0), 2, n, p, 2);
    case DType::kMXFP4:
      pack_nibble_indices(row, sizeof(quant::BlockMxfp4), 1, n, p);
      return pack_block_scales(row, sizeof(quant::BlockMxfp4), 1, n, p, 1);
    case DType::kIQ4_NL:
      pack_nibble_indices(row, sizeof(quant::BlockIq4Nl), 2, n, p);
      return pack_block_scales(row, sizeof(quant::BlockIq4Nl), 2, n, p, 1);
    case DType::kIQ4_XS:
      return pack_blocks<quant::BlockIq4Xs>(row, n, p);
    case DType::kQ2_K:
      return pack_blocks<quant::BlockQ2K>(row, n, p);
    case DType::kQ3_K:
      return pack_blocks<quant::BlockQ3K>(row, n, p);
    case DType::kQ4_K:
      return pack_blocks<quant::BlockQ4K>(row, n, p);
    case DType::kQ5_K:
      return pack_blocks<quant::BlockQ5K>(row, n, p);
    case DType::kQ6_K:
      return pack_blocks<quant::BlockQ6K>(row, n, p);
    case DType::kIQ1_S:
      return pack_blocks<quant::BlockIq1S>(row, n, p);
    case DType::kIQ1_M:
      return pack_blocks<quant::BlockIq1M>(row, n, p);
    case DType::kIQ2_XXS:
      return pack_blocks<quant::BlockIq2Xxs>(row, n, p);
    case DType::kIQ2_XS:
      return pack_blocks<quant::BlockIq2Xs>(row, n, p);
    case DType::kIQ2_S:
      return pack_blocks<quant::BlockIq2S>(row, n, p);
    case DType::kIQ3_XXS:
      return pack_blocks<quant::BlockIq3Xxs>(row, n, p);
    case DType::kIQ3_S:
      return pack_blocks<quant::BlockIq3S>(row, n, p);
    default:
      return;
  }
}

}  // namespace

int64_t packed_row_bytes(DType type, int64_t n_in) {
  return takes_integer_dot(type) ? packed_integer_row_bytes(type, n_in) : row_bytes(type, n_in);
}

void pack_rows(const WeightView& w, int64_t begin, int64_t count, uint8_t* dst, bool wide) {
  const DType type = packed_type(w.type, wide);
  const int64_t stride = packed_row_bytes(type, w.n_in);
  if (!takes_integer_dot(w.type)) {
    std::memcpy(dst, w.row(begin), static_cast<size_t>(count * stride));
    return;
  }
  std::memset(dst, 0, static_cast<size_t>(count * stride));
  const auto n = static_cast<size_t>(w.n_in);
  std::vector<int8_t> q(n);
  std::vector<float> unused(2 * n / 16);
  for (int64_t o = 0; o < count; ++o) {
    const Planes p = planes_of(type, w.n_in, dst + o * stride);
    const uint8_t* const row = w.row(begin + o);
    const bool odd = type == DType::kIQ3_S_WIDE;
    if (odd || has_plain_integers(type)) {
      unpack_integer_weights(w.type, row, w.n_in, q.data(), unused.data(), unused.data() + n / 16);
    }
    if (odd) {
      pack_odd_integers(row, q.data(), w.n_in, p);
      continue;
    }
    if (has_plain_integers(type)) pack_plain_integers(type, q.data(), w.n_in, p);
    pack_scales(type, row, w.n_in, p);
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
  // 8 element + 1 with a bias of 128, so that taking 2 away borrows from no neighbour.
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
