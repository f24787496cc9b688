// IQ2 and IQ3 with VBMI, BITALG and GFNI. A codebook is kept as packed digits, two or four bits an
// element, and looked up by byte or word permutations, 32 or 64 entries at once, with no gather.
// The digits come out ordered by their place in groups of four elements (RoundedRow::q_by_fours).
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Words of a table at 32 indices; only the index bits that count are looked at.
template <int kEntries>
CHIMERE_INLINE __m512i look_up_words(const uint16_t* table, __m512i index) {
  if constexpr (kEntries == 64) {
    return _mm512_permutex2var_epi16(load_bytes(table), index, load_bytes(table + 32));
  } else {
    constexpr int kHalf = kEntries / 2;
    const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(kHalf));
    return _mm512_mask_blend_epi16(upper, look_up_words<kHalf>(table, index),
                                   look_up_words<kHalf>(table + kHalf, index));
  }
}

/// Bytes of a table of 256 at 64 indices.
CHIMERE_INLINE __m512i look_up_bytes(const uint8_t* table, __m512i index) {
  return _mm512_mask_blend_epi8(
      _mm512_movepi8_mask(index),
      _mm512_permutex2var_epi8(load_bytes(table), index, load_bytes(table + 64)),
      _mm512_permutex2var_epi8(load_bytes(table + 128), index, load_bytes(table + 192)));
}

/// Negates, about `offset`, the weights whose bit is set: bit 4 k + c of 64-bit lane l of `signs`
/// is that of element c of quad 8 l + k.
CHIMERE_INLINE void negate(__m512i signs, int offset, __m512i v[4]) {
  const __m512i fourth = _mm512_set1_epi64(0x1C1814100C080400);
  const __m512i twice = _mm512_set1_epi8(static_cast<int8_t>(2 * offset));
  for (int c = 0; c < 4; ++c) {
    const __m512i bit = _mm512_add_epi8(fourth, _mm512_set1_epi8(static_cast<int8_t>(c)));
    const __mmask64 negative = _mm512_bitshuffle_epi64_mask(signs, bit);
    v[c] = _mm512_mask_sub_epi8(v[c], negative, twice, v[c]);
  }
}

/// Completes bytes of seven signs, which begin at bit `kFirst`, to an even number of ones.
template <int kFirst>
CHIMERE_INLINE __m512i even_signs(__m512i seven) {
  // The rows of a bit matrix, that of result bit 7 first: the parity of seven bits, then each.
  constexpr int64_t kRows = kFirst == 0 ? 0x010204081020407F : 0x02040810204080FE;
  return _mm512_gf2p8affine_epi64_epi8(seven, _mm512_set1_epi64(kRows), 0);
}

/// Four times seven bits from bit 32 `kFrom32` of every 64-bit lane on to its lowest four bytes.
template <bool kFrom32>
CHIMERE_INLINE __m512i signs_of_lanes(__m512i lanes) {
  const __m512i from = _mm512_set1_epi64(kFrom32 ? 0x352E2720 : 0x150E0700);
  return even_signs<0>(_mm512_multishift_epi64_epi8(from, lanes));
}

/// d (1 + 2 scale) unit.
CHIMERE_INLINE __m512 odd_scales(uint16_t d, __m512i scale, float unit) {
  const __m512i odd = _mm512_add_epi32(_mm512_add_epi32(scale, scale), _mm512_set1_epi32(1));
  return _mm512_mul_ps(_mm512_set1_ps(widen_f16(d) * unit), _mm512_cvtepi32_ps(odd));
}
/// Of eight groups of 32; 0 where minima would be.
CHIMERE_INLINE __m512 odd_scales_of_32(uint16_t d, __m256i scale, float unit) {
  return _mm512_maskz_mov_ps(0x00FF, odd_scales(d, _mm512_castsi256_si512(scale), unit));
}

constexpr int kIq2OffsetBits = 6;

/// Codes of IQ2 (two bits an element, eight elements a word) to weights.
CHIMERE_INLINE void iq2_weights(__m512i codes, __m512i signs, __m512i v[4]) {
  constexpr int kOffset = 1 << kIq2OffsetBits;
  // Four entries, repeated: a permutation sees two index bits and ignores what stands above.
  const __m512i values =
      _mm512_set1_epi32((kOffset + 8) | (kOffset + 25) << 8 | (kOffset + 43) << 16);
  for (int c = 0; c < 4; ++c) {
    v[c] = _mm512_permutexvar_epi8(_mm512_srli_epi16(codes, 2 * c), values);
  }
  negate(signs, kOffset, v);
}

struct Iq2Xxs : Layout<DType::kIQ2_XXS, quant::BlockIq2Xxs, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    // A 64-bit lane holds four indices, four times seven signs and a scale.
    const __m512i lanes = load_bytes(at(p)->qs);
    const __m512i to_words =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11));
    const __m512i index = _mm512_shuffle_epi8(lanes, to_words);
    iq2_weights(look_up_words<256>(kIq2XxsCodes.entry, index), signs_of_lanes<true>(lanes), v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const __m512i top = _mm512_srli_epi64(load_bytes(at(p)->qs), 60);
    return odd_scales_of_32(at(p)->d, _mm512_cvtepi64_epi32(top), 0.125F);
  }
};

/// Scales of IQ2_XS and IQ2_S.
template <class Block>
CHIMERE_INLINE __m512 iq2_scales(const Block* b) {
  return odd_scales(b->d, _mm512_cvtepu8_epi32(nibbles_as_bytes(b->scales)), 0.125F);
}

struct Iq2Xs : Layout<DType::kIQ2_XS, quant::BlockIq2Xs, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    // Nine bits of index, seven of signs: the upper bytes of four words to the lower half of a
    // lane.
    const __m512i words = load_bytes(at(p)->qs);
    const __m512i upper =
        _mm512_broadcast_i32x4(_mm_setr_epi8(1, 3, 5, 7, 1, 3, 5, 7, 9, 11, 13, 15, 9, 11, 13, 15));
    const __m512i signs = even_signs<1>(_mm512_shuffle_epi8(words, upper));
    iq2_weights(look_up_words<512>(kIq2XsCodes.entry, words), signs, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return iq2_scales(at(p)); }
};

struct Iq2S : Layout<DType::kIQ2_S, quant::BlockIq2S, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i low =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->qs)));
    // The upper byte of word e: qh from bit 2 e on.
    const __m512i from =
        _mm512_set_epi16(62 << 8, 60 << 8, 58 << 8, 56 << 8, 54 << 8, 52 << 8, 50 << 8, 48 << 8,
                         46 << 8, 44 << 8, 42 << 8, 40 << 8, 38 << 8, 36 << 8, 34 << 8, 32 << 8,
                         30 << 8, 28 << 8, 26 << 8, 24 << 8, 22 << 8, 20 << 8, 18 << 8, 16 << 8,
                         14 << 8, 12 << 8, 10 << 8, 8 << 8, 6 << 8, 4 << 8, 2 << 8, 0);
    const __m512i qh = _mm512_set1_epi64(load<int64_t>(b->qh));
    const __m512i index = _mm512_mask_multishift_epi64_epi8(low, 0xAAAAAAAAAAAAAAAA, from, qh);
    const __m512i signs =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->signs)));
    iq2_weights(look_up_words<1024>(kIq2SCodes.entry, index), signs, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return iq2_scales(at(p)); }
};

struct Iq3Xxs : Layout<DType::kIQ3_XXS, quant::BlockIq3Xxs, 1> {
  static constexpr int kOffset = 6;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static __m512i signs_and_scales(const uint8_t* p) {
    return _mm512_cvtepu32_epi64(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at(p)->scales_and_signs)));
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const __m512i index = load_bytes(at(p)->qs);
    const __m512i first = look_up_bytes(kIq3XxsDigits.entry, index);
    const __m512i second = look_up_bytes(kIq3XxsDigits.entry + 256, index);
    // 16 entries, repeated: a permutation sees four index bits and ignores what stands above.
    const __m512i values = _mm512_broadcast_i32x4(
        _mm_add_epi8(_mm_setr_epi8(4, 12, 20, 28, 36, 44, 52, 62, 0, 0, 0, 0, 0, 0, 0, 0),
                     _mm_set1_epi8(1 << kOffset)));
    v[0] = _mm512_permutexvar_epi8(first, values);
    v[1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(first, 4), values);
    v[2] = _mm512_permutexvar_epi8(second, values);
    v[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(second, 4), values);
    negate(signs_of_lanes<false>(signs_and_scales(p)), 1 << kOffset, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const __m512i top = _mm512_srli_epi64(signs_and_scales(p), 28);
    return odd_scales_of_32(at(p)->d, _mm512_cvtepi64_epi32(top), 0.25F);
  }
};

struct Iq3S : Layout<DType::kIQ3_S, quant::BlockIq3S, 1> {
  static constexpr int kOffset = 4;
  static constexpr bool kByFours = true;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const uint8_t* table = kIq3SDigits.entry;
    const auto ninth = load<uint64_t>(b->qh);
    const __m512i low = load_bytes(b->qs);
    const __m512i first =
        _mm512_mask_blend_epi8(ninth, look_up_bytes(table, low), look_up_bytes(table + 256, low));
    const __m512i second = _mm512_mask_blend_epi8(ninth, look_up_bytes(table + 512, low),
                                                  look_up_bytes(table + 768, low));
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i offset = _mm512_set1_epi8(1 << kOffset);
    // 0xEA: (a & b) | c, the magnitude plus 16.
    v[0] = _mm512_ternarylogic_epi64(first, nibble, offset, 0xEA);
    v[1] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(first, 4), nibble, offset, 0xEA);
    v[2] = _mm512_ternarylogic_epi64(second, nibble, offset, 0xEA);
    v[3] = _mm512_ternarylogic_epi64(_mm512_srli_epi16(second, 4), nibble, offset, 0xEA);
    const __m512i signs =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->signs)));
    negate(signs, 1 << kOffset, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m256i shift = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    const __m256i nibbles = _mm256_set1_epi32(load<int32_t>(b->scales));
    return odd_scales_of_32(
        b->d, _mm256_and_si256(_mm256_srlv_epi32(nibbles, shift), _mm256_set1_epi32(15)), 1.0F);
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

}  // namespace chimere::kernels::cpu::avx512
