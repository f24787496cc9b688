// The formats with codebooks of four or eight elements per entry, with AVX2: entries are loaded one
// by one, which is faster than gather instructions. Vectors are unpacked by eights: vector 2 k + h
// holds, for groups of 32 g = 4 h .. 4 h + 3, their elements 8 k .. 8 k + 7.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/integer_product.h"
#include "kernels/cpu/avx2/kernels.h"
#include "kernels/cpu/codebook_tables.h"
#include "quant/codebooks.h"

namespace chimere::kernels::cpu::CHIMERE_ISA {
namespace {

/// The eight entries of four bytes of vector (k, h), at indices of a natural order.
template <class Index>
CHIMERE_INLINE __m256i eight_entries(const uint32_t* table, const Index index[64], int k, int h) {
  const auto two = [table](const Index* at) {
    return _mm_unpacklo_epi32(_mm_loadu_si32(table + at[0]), _mm_loadu_si32(table + at[1]));
  };
  const Index* at = index + 32 * h + 2 * k;
  const __m128i first = _mm_unpacklo_epi64(two(at), two(at + 8));
  const __m128i second = _mm_unpacklo_epi64(two(at + 16), two(at + 24));
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

/// 64 indices that stay in memory: GCC would extract each from a register, which takes longer than
/// a load.
struct Indices {
  alignas(32) uint16_t at[64];

  CHIMERE_INLINE void set(int i, __m256i sixteen) { store_bytes(at + 16 * i, sixteen); }
  CHIMERE_INLINE void stay_in_memory() {
    // NOLINTNEXTLINE(hicpp-no-assembler)
    asm("" : "+m"(at));
  }
};

/// The signs of 256 elements, made of 32 bits for each group.
struct Signs {
  __m256i groups;  ///< 64-bit lanes: groups 0 and 1, 4 and 5, 2 and 3, 6 and 7

  CHIMERE_INLINE explicit Signs(__m256i natural)
      : groups(_mm256_permute4x64_epi64(natural, 0xD8)) {}

  /// All ones in the negative elements of vector (k, h).
  CHIMERE_INLINE __m256i negative(int k, int h) const {
    constexpr int64_t kOnes = 0x0101010101010101;
    const __m256i byte_of_element =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(kOnes * (8 * h + 4 + k), kOnes * (8 * h + k)));
    const __m256i bit_of_element = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    const __m256i spread = _mm256_shuffle_epi8(groups, byte_of_element);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of_element), bit_of_element);
  }
};

/// `offset` plus magnitudes, negated where `negative` is set.
CHIMERE_INLINE __m256i signed_plus(__m256i magnitude, __m256i negative, int offset) {
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

/// The signs of groups of 32 elements, from four times seven bits in each lane.
CHIMERE_INLINE Signs signs_of_lanes(__m256i lanes) {
  __m256i seven = _mm256_and_si256(lanes, _mm256_set1_epi32(0x7F));
  for (int k = 1; k < 4; ++k) {
    const __m256i field =
        _mm256_and_si256(_mm256_slli_epi32(lanes, k), _mm256_set1_epi32(0x7F << (8 * k)));
    seven = _mm256_or_si256(seven, field);
  }
  return Signs(even_signs(seven));
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
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 107;

  /// The upper halves of eight lanes of 64 bits: signs and scales.
  CHIMERE_INLINE static __m256i upper(const uint8_t* p) {
    const __m256 a = _mm256_castsi256_ps(load_bytes(at(p)->qs));
    const __m256 b = _mm256_castsi256_ps(load_bytes(at(p)->qs + 16));
    return _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD)), 0xD8);
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2XxsGrid);
    const Signs signs = signs_of_lanes(upper(p));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const uint8_t* index = p + offsetof(Block, qs) + 32 * h + k;
      v[i] = signed_plus(four_entries(grid, index[0], index[8], index[16], index[24]),
                         signs.negative(k, h), 1 << kOffset);
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
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 107;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2XsGrid);
    const __m256i a = _mm256_srli_epi16(load_bytes(at(p)->qs), 9);
    const __m256i b = _mm256_srli_epi16(load_bytes(at(p)->qs + 16), 9);
    const Signs signs(even_signs(_mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8)));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const uint16_t* index = at(p)->qs + 16 * h + k;
      v[i] = signed_plus(
          four_entries(grid, index[0] & 511U, index[4] & 511U, index[8] & 511U, index[12] & 511U),
          signs.negative(k, h), 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    iq2_scales(at(p), s);
  }
};

struct Iq2S : Layout<DType::kIQ2_S, quant::BlockIq2S, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kSigned = false;
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 107;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    const auto* grid = reinterpret_cast<const uint64_t*>(&quant::kIq2SGrid);
    const Signs signs(load_bytes(b->signs));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const uint8_t* index = b->qs + 16 * h + k;
      const uint8_t* high = b->qh + 4 * h;
      const auto at = [=](int g) {
        return index[4 * g] | (static_cast<unsigned>(high[g]) << (8 - 2 * k) & 0x300U);
      };
      v[i] = signed_plus(four_entries(grid, at(0), at(1), at(2), at(3)), signs.negative(k, h),
                         1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    iq2_scales(at(p), s);
  }
};

struct Iq3Xxs : Layout<DType::kIQ3_XXS, quant::BlockIq3Xxs, 1> {
  static constexpr int kOffset = 6;
  static constexpr bool kSigned = false;
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 126;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const auto* grid = reinterpret_cast<const uint32_t*>(&quant::kIq3XxsGrid);
    const Signs signs = signs_of_lanes(load_bytes(at(p)->scales_and_signs));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      v[i] = signed_plus(eight_entries(grid, at(p)->qs, k, h), signs.negative(k, h), 1 << kOffset);
    }
  }
  CHIMERE_INLINE static void scales(const uint8_t* p, __m256 s[2], __m256 /*m*/[2]) {
    s[0] = odd_scales(at(p)->d, 0.25F, _mm256_srli_epi32(load_bytes(at(p)->scales_and_signs), 28));
  }
};

struct Iq3S : Layout<DType::kIQ3_S, quant::BlockIq3S, 1> {
  static constexpr int kOffset = kIq3SOffsetBits;
  static constexpr bool kSigned = false;
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 31;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096,
                                          8192, 16384, -32768);
    Indices indices;
    for (int i = 0; i < 4; ++i) {
      const __m256i high = _mm256_set1_epi16(load<int16_t>(b->qh + 2 * i));
      const __m256i set = _mm256_cmpeq_epi16(_mm256_and_si256(high, bit), bit);
      const __m256i low = _mm256_cvtepu8_epi16(load_16(b->qs + 16 * i));
      indices.set(i, _mm256_or_si256(low, _mm256_and_si256(set, _mm256_set1_epi16(256))));
    }
    indices.stay_in_memory();
    const Signs signs(load_bytes(b->signs));
// 16 + m and 16 - m differ in bits 1 to 4, because m is odd and less than 16.
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const __m256i flip = _mm256_and_si256(signs.negative(k, h), _mm256_set1_epi8(30));
      v[i] = _mm256_xor_si256(eight_entries(kIq3SBytes.entry, indices.at, k, h), flip);
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
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 25;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    // 2 in the bytes of groups with a negative delta.
    const __m256i words = _mm256_cvtepu16_epi32(load_16(b->qh));
    const __m256i negative =
        _mm256_and_si256(_mm256_srai_epi32(_mm256_slli_epi32(words, 16), 31), _mm256_set1_epi8(2));
    const __m256i two[2] = {_mm256_cvtepi32_epi64(_mm256_castsi256_si128(negative)),
                            _mm256_cvtepi32_epi64(_mm256_extracti128_si256(negative, 1))};
    const __m256i twice = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0,
                                           0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const uint8_t* index = b->qs + 16 * h + k;
      const uint16_t* high = b->qh + 4 * h;
      const auto at = [=](int g) {
        return index[4 * g] | (static_cast<unsigned>(high[g]) << 8 >> (3 * k) & 0x700U);
      };
      v[i] = _mm256_sub_epi8(four_entries(kIq1Bytes.entry, at(0), at(1), at(2), at(3)),
                             _mm256_shuffle_epi8(two[h], twice));
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
  static constexpr bool kByEights = true;
  static constexpr int kLargest = 25;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m256i v[8]) {
    const Block* b = at(p);
    // A group's 16 bits are four nibbles: three bits of index and the sign of delta.
    const __m256i words = _mm256_cvtepu16_epi32(load_16(b->qh));
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const int k = i / 2;
      const int h = i % 2;
      const uint8_t* index = b->qs + 16 * h + k;
      const uint8_t* high = b->qh + 8 * h;
      const auto at = [=](int g) {
        return index[4 * g] |
               (static_cast<unsigned>(load<uint16_t>(high + 2 * g)) << 8 >> (4 * k) & 0x700U);
      };
      const __m128i four =
          h == 0 ? _mm256_castsi256_si128(words) : _mm256_extracti128_si256(words, 1);
      const __m256i sign =
          _mm256_cvtepi32_epi64(_mm_srai_epi32(_mm_slli_epi32(four, 28 - 4 * k), 31));
      v[i] = _mm256_sub_epi8(four_entries(kIq1Bytes.entry, at(0), at(1), at(2), at(3)),
                             _mm256_and_si256(sign, _mm256_set1_epi8(2)));
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

}  // namespace chimere::kernels::cpu::CHIMERE_ISA
