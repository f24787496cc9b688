// The formats with codebooks of four or eight elements per entry, with AVX2: entries are loaded one
// by one, which is faster than gather instructions.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/codebook_tables.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu::avx2 {
namespace {

/// Entries of four bytes at eight indices of a byte each; bit k of `high` adds 256 to index k.
CHIMERE_INLINE __m256i eight_entries(const uint32_t* table, const uint8_t* index,
                                     uint32_t high = 0) {
  const auto two = [=](unsigned k) {
    const uint32_t* low = table + (high << (8 - k) & 256U);
    const uint32_t* up = table + (high << (7 - k) & 256U);
    return _mm_unpacklo_epi32(_mm_loadu_si32(low + index[k]), _mm_loadu_si32(up + index[k + 1]));
  };
  const __m128i first = _mm_unpacklo_epi64(two(0), two(2));
  const __m128i second = _mm_unpacklo_epi64(two(4), two(6));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

/// Entries of eight bytes at four indices.
CHIMERE_INLINE __m256i four_entries(const uint64_t* table, uint64_t a, uint64_t b, uint64_t c,
                                    uint64_t d) {
  const auto two = [table](uint64_t low, uint64_t high) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table + low));
    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(v), reinterpret_cast<const __m64*>(table + high)));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(two(a, b)), two(c, d), 1);
}

/// `offset` plus magnitudes, negated where `bits` are set.
CHIMERE_INLINE __m256i signed_plus(__m256i magnitude, int32_t bits, int offset) {
  const __m256i negative = bytes_of_mask(bits);
  return _mm256_add_epi8(_mm256_xor_si256(magnitude, negative),
                         _mm256_sub_epi8(_mm256_set1_epi8(static_cast<int8_t>(offset)), negative));
}

/// Makes the number of ones of every byte of seven signs even.
CHIMERE_INLINE __m256i even_signs(__m256i seven) {
  __m256i parity = _mm256_xor_si256(seven, _mm256_srli_epi32(seven, 4));
  parity = _mm256_xor_si256(parity, _mm256_srli_epi32(parity, 2));
  parity = _mm256_xor_si256(parity, _mm256_srli_epi32(parity, 1));
  const __m256i eighth = _mm256_slli_epi32(_mm256_and_si256(parity, _mm256_set1_epi8(1)), 7);
  return _mm256_or_si256(seven, eighth);
}

/// The signs of eight times 32 elements, from four times seven bits in each lane.
CHIMERE_INLINE void signs_of_lanes(__m256i lanes, int32_t signs[8]) {
  __m256i seven = _mm256_and_si256(lanes, _mm256_set1_epi32(0x7F));
  for (int k = 1; k < 4; ++k) {
    const __m256i field =
        _mm256_and_si256(_mm256_slli_epi32(lanes, k), _mm256_set1_epi32(0x7F << (8 * k)));
    seven = _mm256_or_si256(seven, field);
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(signs), even_signs(seven));
}

/// d unit (1 + 2 scale).
CHIMERE_INLINE __m256 odd_scales(uint16_t d, float unit, __m256i scale) {
  const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(scale, scale), _mm256_set1_epi32(1));
  return _mm256_mul_ps(_mm256_set1_ps(widen_f16(d) * unit), _mm256_cvtepi32_ps(odd));
}

constexpr int kIq2OffsetBits = 6;

struct Iq2Xxs : Layout<DType::kIQ2_XXS, quant::BlockIq2Xxs, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kSigned = false;

  /// The upper halves of eight lanes of 64 bits: signs and scales.
  CHIMERE_INLINE static __m256i upper(const uint8_t* p) {
    const __m256 a = _mm256_castsi256_ps(load_bytes(at(p)->qs));
    const __m256 b = _mm256_castsi256_ps(load_bytes(at(p)->qs + 16));
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD)), 0xD8);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2XxsGrid);
    int32_t signs[8];
    signs_of_lanes(upper(p), signs);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint8_t* index = p + offsetof(Block, qs) + 8 * i;
      v[i] = signed_plus(four_entries(grid, index[0], index[1], index[2], index[3]), signs[i],
                         1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = odd_scales(at(p)->d, 0.125F, _mm256_srli_epi32(upper(p), 28));
  }
};

/// Scales of IQ2_XS and IQ2_S.
template <class Block>
CHIMERE_INLINE void iq2_scales(const Block* b, __m256 s[2]) {
  const __m128i nibbles = nibbles_as_bytes(b->scales);
  s[0] = odd_scales(b->d, 0.125F, _mm256_cvtepu8_epi32(nibbles));
  s[1] = odd_scales(b->d, 0.125F, _mm256_cvtepu8_epi32(upper_8(nibbles)));
}

struct Iq2Xs : Layout<DType::kIQ2_XS, quant::BlockIq2Xs, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2XsGrid);
    const __m256i a = _mm256_srli_epi16(load_bytes(at(p)->qs), 9);
    const __m256i b = _mm256_srli_epi16(load_bytes(at(p)->qs + 16), 9);
    int32_t signs[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(signs),
                        even_signs(_mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8)));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint16_t* index = at(p)->qs + 4 * i;
      v[i] = signed_plus(
          four_entries(grid, index[0] & 511U, index[1] & 511U, index[2] & 511U, index[3] & 511U),
          signs[i], 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    iq2_scales(at(p), s);
  }
};

struct Iq2S : Layout<DType::kIQ2_S, quant::BlockIq2S, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2SGrid);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint8_t* index = b->qs + 4 * i;
      const unsigned high = b->qh[i];
      v[i] = signed_plus(
          four_entries(grid, index[0] | (high << 8 & 0x300U), index[1] | (high << 6 & 0x300U),
                       index[2] | (high << 4 & 0x300U), index[3] | (high << 2 & 0x300U)),
          load<int32_t>(b->signs + 4 * i), 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    iq2_scales(at(p), s);
  }
};

struct Iq3Xxs : Layout<DType::kIQ3_XXS, quant::BlockIq3Xxs, 1> {
  static constexpr int kOffset = 6;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint32_t*>(&quant::kIq3XxsGrid);
    int32_t signs[8];
    signs_of_lanes(load_bytes(at(p)->scales_and_signs), signs);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      v[i] = signed_plus(eight_entries(grid, at(p)->qs + 8 * i), signs[i], 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = odd_scales(at(p)->d, 0.25F, _mm256_srli_epi32(load_bytes(at(p)->scales_and_signs), 28));
  }
};

struct Iq3S : Layout<DType::kIQ3_S, quant::BlockIq3S, 1> {
  static constexpr int kOffset = 4;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    const auto* grid = reinterpret_cast<const uint32_t*>(&quant::kIq3SGrid);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      v[i] = signed_plus(eight_entries(grid, b->qs + 8 * i, b->qh[i]),
                         load<int32_t>(b->signs + 4 * i), 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    const Block* b = at(p);
    const __m256i shift = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    const __m256i nibbles = _mm256_set1_epi32(load<int32_t>(b->scales));
    s[0] = odd_scales(b->d, 1.0F,
                      _mm256_and_si256(_mm256_srlv_epi32(nibbles, shift), _mm256_set1_epi32(15)));
  }
};

struct Iq1S : Layout<DType::kIQ1_S, quant::BlockIq1S, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint8_t* index = b->qs + 4 * i;
      const unsigned qh = b->qh[i];
      const __m256i two = _mm256_set1_epi8(static_cast<int8_t>(qh >> 14 & 2));
      v[i] =
          _mm256_sub_epi8(four_entries(kIq1Bytes.entry, index[0] | (qh << 8 & 0x700U),
                                       index[1] | (qh << 5 & 0x700U), index[2] | (qh << 2 & 0x700U),
                                       index[3] | (qh >> 1 & 0x700U)),
                          two);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    const __m256i words = _mm256_cvtepu16_epi32(load_16(at(p)->qh));
    s[0] = odd_scales(at(p)->d, 0.125F,
                      _mm256_and_si256(_mm256_srli_epi32(words, 12), _mm256_set1_epi32(7)));
  }
};

struct Iq1M : Layout<DType::kIQ1_M, quant::BlockIq1M, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr bool kSigned = false;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const uint8_t* index = b->qs + 4 * i;
      // Nibbles: three bits of index and the sign of delta.
      const unsigned high = load<uint16_t>(b->qh + 2 * i);
      const __m256i nibbles =
          _mm256_srlv_epi64(_mm256_set1_epi64x(high), _mm256_setr_epi64x(0, 4, 8, 12));
      const __m256i eighth = _mm256_and_si256(nibbles, _mm256_set1_epi64x(8));
      // 2 in the bytes of 64-bit lanes with a negative delta.
      const __m256i two =
          _mm256_and_si256(_mm256_cmpgt_epi64(eighth, _mm256_setzero_si256()), _mm256_set1_epi8(2));
      v[i] =
          _mm256_sub_epi8(four_entries(kIq1Bytes.entry, index[0] | (high << 8 & 0x700U),
                                       index[1] | (high << 4 & 0x700U), index[2] | (high & 0x700U),
                                       index[3] | (high >> 4 & 0x700U)),
                          two);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    const Block* b = at(p);
    const auto packed = load<uint64_t>(b->scales);
    const __m256i shift = _mm256_setr_epi32(0, 3, 6, 9, 16, 19, 22, 25);
    for (int half = 0; half < 2; ++half) {
      const __m256i words = _mm256_set1_epi32(static_cast<int32_t>(packed >> (32 * half)));
      s[half] = odd_scales(quant::iq1_m_scale(*b), 0.125F,
                           _mm256_and_si256(_mm256_srlv_epi32(words, shift), _mm256_set1_epi32(7)));
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

}  // namespace chimere::kernels::cpu::avx2
