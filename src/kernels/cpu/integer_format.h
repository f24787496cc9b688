// What the AVX2 and AVX-512 implementations of an integer format share: its layout
// (docs/formats.md) and the unpacking of scales. Included by files that are compiled for one
// instruction set, hence the unnamed namespace and forced inlining.
#ifndef CHIMERE_KERNELS_CPU_INTEGER_FORMAT_H_
#define CHIMERE_KERNELS_CPU_INTEGER_FORMAT_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/dot_rule.h"
#include "kernels/math.h"
#include "quant/blocks.h"

namespace chimere::kernels::cpu {
namespace {

/// Base of a format F of integer_product<F>().
template <DType kType, class BlockType, int kBlocksOf256>
struct Layout {
  using Block = BlockType;
  static constexpr int kGroup = scale_group(kType);     ///< elements of a scale group
  static constexpr bool kMinimum = has_minimum(kType);  ///< whether groups have a minimum
  static constexpr int kBlocks = kBlocksOf256;          ///< blocks in 256 elements
  static constexpr int64_t kBlockBytes = sizeof(Block);

  CHIMERE_INLINE static const Block* at(const uint8_t* p) {
    return reinterpret_cast<const Block*>(p);
  }
};

template <class T>
CHIMERE_INLINE T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// 16 bytes, one per scale (or 8 scales and 8 minima).
CHIMERE_INLINE __m128i bytes_of(uint64_t low, uint64_t high) {
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}

/// The d of eight consecutive blocks, as f16.
template <class Block>
CHIMERE_INLINE __m128i eight_d(const Block* b) {
  return _mm_setr_epi16(static_cast<int16_t>(b[0].d), static_cast<int16_t>(b[1].d),
                        static_cast<int16_t>(b[2].d), static_cast<int16_t>(b[3].d),
                        static_cast<int16_t>(b[4].d), static_cast<int16_t>(b[5].d),
                        static_cast<int16_t>(b[6].d), static_cast<int16_t>(b[7].d));
}

/// 32 bits from each of eight addresses `stride` bytes apart.
CHIMERE_INLINE __m256i eight_dwords(const void* p, int64_t stride) {
  const auto two = [=](int64_t i) {
    const auto* first = static_cast<const uint8_t*>(p) + i * stride;
    return _mm_unpacklo_epi32(_mm_loadu_si32(first), _mm_loadu_si32(first + stride));
  };
  const __m128i low = _mm_unpacklo_epi64(two(0), two(2));
  const __m128i high = _mm_unpacklo_epi64(two(4), two(6));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/// The 6-bit scales, then minima, of Q4_K and Q5_K from their 12 bytes.
CHIMERE_INLINE __m128i k_scales_minima(const uint8_t* packed) {
  constexpr uint32_t kSix = 0x3F3F3F3F;
  constexpr uint32_t kFour = 0x0F0F0F0F;
  constexpr uint32_t kTop = 0x30303030;
  const auto a = load<uint32_t>(packed);
  const auto b = load<uint32_t>(packed + 4);
  const auto c = load<uint32_t>(packed + 8);
  const uint64_t scale_high = (c & kFour) | ((a >> 2) & kTop);
  const uint64_t min_high = ((c >> 4) & kFour) | ((b >> 2) & kTop);
  return bytes_of((a & kSix) | (scale_high << 32), (b & kSix) | (min_high << 32));
}

/// The 6-bit scales of Q3_K, 0..63, from its 12 bytes.
CHIMERE_INLINE __m128i q3_k_scales(const uint8_t* packed) {
  constexpr uint64_t kFour = 0x0F0F0F0F0F0F0F0F;
  constexpr uint64_t kTop = 0x3030303030303030;
  const auto low = load<uint64_t>(packed);
  const uint64_t top = load<uint32_t>(packed + 8);
  return bytes_of((low & kFour) | ((top << 4 | top << 34) & kTop),
                  ((low >> 4) & kFour) | ((top | top << 30) & kTop));
}

/// The 6-bit scales of IQ4_XS, 0..63, in the low 8 bytes.
CHIMERE_INLINE __m128i iq4_xs_scales(const quant::BlockIq4Xs& b) {
  const uint64_t nibbles = load<uint32_t>(b.scales_l);
  // Spread by doubling: 4 bits, and 2 bits, to each byte.
  uint64_t low = (nibbles | nibbles << 16) & 0x0000FFFF0000FFFF;
  low = (low | low << 8) & 0x00FF00FF00FF00FF;
  low = (low | low << 4) & 0x0F0F0F0F0F0F0F0F;
  uint64_t top = b.scales_h;
  top = (top | top << 24) & 0x000000FF000000FF;
  top = (top | top << 12) & 0x000F000F000F000F;
  top = (top | top << 6) & 0x0303030303030303;
  return bytes_of(low | top << 4, 0);
}

/// The nibbles of 8 bytes, lowest first, as bytes.
CHIMERE_INLINE __m128i nibbles_as_bytes(const uint8_t* packed) {
  const __m128i both = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed));
  return _mm_and_si128(_mm_unpacklo_epi8(both, _mm_srli_epi16(both, 4)), _mm_set1_epi8(15));
}

/// The exponents of eight consecutive MXFP4 blocks, in the low 8 bytes.
CHIMERE_INLINE __m128i eight_exponents(const quant::BlockMxfp4* b) {
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) bytes |= static_cast<uint64_t>(b[i].e) << (8 * i);
  return bytes_of(bytes, 0);
}

/// quant::half_e8m0() of eight bytes.
CHIMERE_INLINE __m256 half_e8m0(__m128i bytes) {
  const __m256i e = _mm256_cvtepu8_epi32(bytes);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
  return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
}

}  // namespace
}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_INTEGER_FORMAT_H_
