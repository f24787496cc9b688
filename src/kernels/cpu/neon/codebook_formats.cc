// The formats with codebooks of four or eight elements per entry, with NEON: entries are loaded one
// by one.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/cpu/codebook_tables.h"
#include "kernels/cpu/neon/bytes.h"
#include "kernels/cpu/neon/integer_product.h"
#include "kernels/cpu/neon/kernels.h"
#include "quant/blocks.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// The elements of a std::array, without its member functions.
template <class T, class Array>
CHIMERE_INLINE const T* elements(const Array& table) {
  return reinterpret_cast<const T*>(&table);
}
CHIMERE_INLINE uint8_t even_signs(uint32_t seven) {
  return elements<uint8_t>(quant::kEvenSigns)[seven & 127U];
}

/// d unit (1 + 2 scale).
CHIMERE_INLINE float odd_scale(uint16_t d, unsigned scale, float unit) {
  return widen_f16(d) * unit * static_cast<float>(1 + 2 * scale);
}

struct Iq2Xxs : Layout<DType::kIQ2_XXS, quant::BlockIq2Xxs, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const auto* grid = elements<uint64_t>(quant::kIq2XxsGrid);
    for (int g = 0; g < 8; ++g) {
      const auto index = load<uint32_t>(at(p)->qs + 4 * g);
      const auto rest = load<uint32_t>(at(p)->qs + 4 * g + 2);
      for (int e = 0; e < 2; ++e) {
        const uint32_t two = index >> (16 * e);
        const uint32_t signs = rest >> (14 * e);
        v[2 * g + e] = with_signs(two_entries(grid + (two & 255U), grid + (two >> 8 & 255U)),
                                  bytes_of_bits(even_signs(signs), even_signs(signs >> 7)));
      }
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int g = 0; g < 8; ++g) {
      s[g] = odd_scale(at(p)->d, load<uint32_t>(at(p)->qs + 4 * g + 2) >> 28, 0.125F);
    }
  }
};

/// Scales of IQ2_XS and IQ2_S.
template <class Block>
CHIMERE_INLINE void iq2_scales(const Block* b, float* s) {
  for (int g = 0; g < 16; ++g) {
    s[g] = odd_scale(b->d, static_cast<unsigned>(b->scales[g / 2]) >> (g % 2 * 4) & 15U, 0.125F);
  }
}

struct Iq2Xs : Layout<DType::kIQ2_XS, quant::BlockIq2Xs, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const auto* grid = elements<uint64_t>(quant::kIq2XsGrid);
    for (int i = 0; i < 16; ++i) {
      const unsigned a = at(p)->qs[2 * i];
      const unsigned b = at(p)->qs[2 * i + 1];
      v[i] = with_signs(two_entries(grid + (a & 511U), grid + (b & 511U)),
                        bytes_of_bits(even_signs(a >> 9), even_signs(b >> 9)));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    iq2_scales(at(p), s);
  }
};

struct Iq2S : Layout<DType::kIQ2_S, quant::BlockIq2S, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const Block* b = at(p);
    const auto* grid = elements<uint64_t>(quant::kIq2SGrid);
    for (int i = 0; i < 16; ++i) {
      const unsigned high = static_cast<unsigned>(b->qh[i / 2]) >> (i % 2 * 4);
      const unsigned first = b->qs[2 * i] | (high & 3U) << 8;
      const unsigned second = b->qs[2 * i + 1] | (high >> 2 & 3U) << 8;
      v[i] = with_signs(two_entries(grid + first, grid + second),
                        bytes_of_bits(b->signs[2 * i], b->signs[2 * i + 1]));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    iq2_scales(at(p), s);
  }
};

/// Four entries of four bytes.
CHIMERE_INLINE int8x16_t four_entries(const uint32_t* grid, unsigned a, unsigned b, unsigned c,
                                      unsigned d) {
  uint32x4_t v = vld1q_dup_u32(grid + a);
  v = vld1q_lane_u32(grid + b, v, 1);
  v = vld1q_lane_u32(grid + c, v, 2);
  return vreinterpretq_s8_u32(vld1q_lane_u32(grid + d, v, 3));
}

struct Iq3Xxs : Layout<DType::kIQ3_XXS, quant::BlockIq3Xxs, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const auto* grid = elements<uint32_t>(quant::kIq3XxsGrid);
    for (int i = 0; i < 16; ++i) {
      const uint8_t* q = at(p)->qs + 4 * i;
      const uint32_t signs = load<uint32_t>(at(p)->scales_and_signs + i / 2 * 4) >> (i % 2 * 14);
      v[i] = with_signs(four_entries(grid, q[0], q[1], q[2], q[3]),
                        bytes_of_bits(even_signs(signs), even_signs(signs >> 7)));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int g = 0; g < 8; ++g) {
      s[g] = odd_scale(at(p)->d, load<uint32_t>(at(p)->scales_and_signs + 4 * g) >> 28, 0.25F);
    }
  }
};

struct Iq3S : Layout<DType::kIQ3_S, quant::BlockIq3S, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    const Block* b = at(p);
    const auto* grid = elements<uint32_t>(quant::kIq3SGrid);
    for (int i = 0; i < 16; ++i) {
      const uint8_t* q = b->qs + 4 * i;
      const unsigned high = static_cast<unsigned>(b->qh[i / 2]) << 8 >> (i % 2 * 4);
      v[i] = with_signs(four_entries(grid, q[0] | (high & 256U), q[1] | (high >> 1 & 256U),
                                     q[2] | (high >> 2 & 256U), q[3] | (high >> 3 & 256U)),
                        bytes_of_bits(b->signs[2 * i], b->signs[2 * i + 1]));
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int g = 0; g < 8; ++g) {
      s[g] = odd_scale(at(p)->d, static_cast<unsigned>(at(p)->scales[g / 2]) >> (g % 2 * 4) & 15U,
                       1.0F);
    }
  }
};

/// Two entries of kIq1Bytes as rule 4's integers; each has 2 less if its delta is negative.
CHIMERE_INLINE int8x16_t ternary(unsigned a, bool a_negative, unsigned b, bool b_negative) {
  const int8x16_t v = two_entries(kIq1Bytes.entry + a, kIq1Bytes.entry + b);
  const auto offset = [](bool negative) {
    return vdup_n_s8(static_cast<int8_t>((1 << kIq1OffsetBits) + (negative ? 2 : 0)));
  };
  return vsubq_s8(v, vcombine_s8(offset(a_negative), offset(b_negative)));
}

struct Iq1S : Layout<DType::kIQ1_S, quant::BlockIq1S, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 16; ++i) {
      const unsigned rest = at(p)->qh[i / 2];
      const bool negative = (rest & 0x8000U) != 0;
      const unsigned high = rest >> (i % 2 * 6);
      v[i] = ternary(at(p)->qs[2 * i] | (high & 7U) << 8, negative,
                     at(p)->qs[2 * i + 1] | (high >> 3 & 7U) << 8, negative);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    for (int g = 0; g < 8; ++g) {
      s[g] = odd_scale(at(p)->d, static_cast<unsigned>(at(p)->qh[g]) >> 12 & 7U, 0.125F);
    }
  }
};

struct Iq1M : Layout<DType::kIQ1_M, quant::BlockIq1M, 1> {
  CHIMERE_INLINE static void unpack(const uint8_t* p, int8x16_t v[16]) {
    for (int i = 0; i < 16; ++i) {
      const unsigned high = at(p)->qh[i];
      v[i] = ternary(at(p)->qs[2 * i] | (high & 7U) << 8, (high & 8U) != 0,
                     at(p)->qs[2 * i + 1] | (high >> 4 & 7U) << 8, (high & 128U) != 0);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, float* s, float* /*m*/) {
    const auto packed = load<uint64_t>(at(p)->scales);
    // The f16 scale is in the top nibbles of four 16-bit words, whose other bits are four steps of
    // three bits.
    const auto d = static_cast<uint16_t>((packed >> 12 & 0xF) | (packed >> 24 & 0xF0) |
                                         (packed >> 36 & 0xF00) | (packed >> 48 & 0xF000));
    for (int g = 0; g < 16; ++g) {
      s[g] =
          odd_scale(d, static_cast<unsigned>(packed >> (16 * (g / 4) + 3 * (g % 4)) & 7U), 0.125F);
    }
  }
};

}  // namespace

template <>
void product<DType::kIQ2_XXS>(const IntegerProduct& p) {
  integer_product<Iq2Xxs>(p);
}
template <>
void product<DType::kIQ2_XS>(const IntegerProduct& p) {
  integer_product<Iq2Xs>(p);
}
template <>
void product<DType::kIQ2_S>(const IntegerProduct& p) {
  integer_product<Iq2S>(p);
}
template <>
void product<DType::kIQ3_XXS>(const IntegerProduct& p) {
  integer_product<Iq3Xxs>(p);
}
template <>
void product<DType::kIQ3_S>(const IntegerProduct& p) {
  integer_product<Iq3S>(p);
}
template <>
void product<DType::kIQ1_S>(const IntegerProduct& p) {
  integer_product<Iq1S>(p);
}
template <>
void product<DType::kIQ1_M>(const IntegerProduct& p) {
  integer_product<Iq1M>(p);
}

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
