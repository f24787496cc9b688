// IQ2 and IQ3 with VBMI, BITALG and GFNI. A codebook is kept as packed digits, two or four bits an
// element, and looked up by byte permutations (avx512/codebooks.h).
// The digits come out ordered by their place in groups of four elements (RoundedRow::q_by_fours).
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/codebooks.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

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

constexpr int kIq2OffsetBits = 6;

/// Codes of 64 groups of four (two bits an element) to weights.
CHIMERE_INLINE void iq2_weights(__m512i codes, __m512i signs, __m512i v[4]) {
  constexpr int kOffset = 1 << kIq2OffsetBits;
  expand_codes(codes, kOffset + 8, kOffset + 25, kOffset + 43, v);
  negate(signs, kOffset, v);
}

/// Two super-blocks of 32 entries each. Byte 16 j + i (i < 8) of `low` is that of entry 8 j + i of
/// the first, byte 16 j + 8 + i that of the second.
template <int kEntries>
CHIMERE_INLINE void two_of_iq2(const CodebookTable<uint8_t, 2 * kEntries>& table, __m512i low,
                               const __mmask64* bits, __m512i signs0, __m512i signs1, __m512i v0[4],
                               __m512i v1[4]) {
  const __m512i first = look_up<kEntries>(table.entry, low, bits);
  const __m512i second = look_up<kEntries>(table.entry + kEntries, low, bits);
  iq2_weights(_mm512_unpacklo_epi8(first, second), signs0, v0);
  iq2_weights(_mm512_unpackhi_epi8(first, second), signs1, v1);
}

struct Iq2Xxs : Layout<DType::kIQ2_XXS, quant::BlockIq2Xxs, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  CHIMERE_INLINE static void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4],
                                        __m512i v1[4]) {
    // A 64-bit lane holds four indices, four times seven signs and a scale.
    const __m512i a = load_bytes(at(p0)->qs);
    const __m512i b = load_bytes(at(p1)->qs);
    const __m512i lower =
        _mm512_set_epi32(30, 28, 14, 12, 26, 24, 10, 8, 22, 20, 6, 4, 18, 16, 2, 0);
    const __m512i low = _mm512_permutex2var_epi32(a, lower, b);
    const __mmask64 bits[1] = {_mm512_movepi8_mask(low)};
    two_of_iq2<256>(kIq2XxsCodes, low, bits, signs_of_lanes<true>(a), signs_of_lanes<true>(b), v0,
                    v1);
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
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  /// Bytes 16 j + 2 i + k of both operands of a permutation, for two_of_iq2().
  CHIMERE_INLINE static __m512i every_other(int k) {
    const __m512i first = _mm512_set_epi64(
        0x7E7C7A7876747270, 0x3E3C3A3836343230, 0x6E6C6A6866646260, 0x2E2C2A2826242220,
        0x5E5C5A5856545250, 0x1E1C1A1816141210, 0x4E4C4A4846444240, 0x0E0C0A0806040200);
    return _mm512_add_epi8(first, _mm512_set1_epi8(static_cast<int8_t>(k)));
  }
  CHIMERE_INLINE static void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4],
                                        __m512i v1[4]) {
    // Nine bits of index, seven of signs.
    const __m512i a = load_bytes(at(p0)->qs);
    const __m512i b = load_bytes(at(p1)->qs);
    const __m512i low = _mm512_permutex2var_epi8(a, every_other(0), b);
    const __m512i high = _mm512_permutex2var_epi8(a, every_other(1), b);
    const __mmask64 bits[2] = {_mm512_movepi8_mask(low),
                               _mm512_test_epi8_mask(high, _mm512_set1_epi8(1))};
    const __m512i signs = even_signs<1>(high);
    // Four bytes to the lower half of every lane.
    const __m512i of_first =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7));
    const __m512i of_second = _mm512_add_epi8(of_first, _mm512_set1_epi8(8));
    two_of_iq2<512>(kIq2XsCodes, low, bits, _mm512_shuffle_epi8(signs, of_first),
                    _mm512_shuffle_epi8(signs, of_second), v0, v1);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return iq2_scales(at(p)); }
};

struct Iq2S : Layout<DType::kIQ2_S, quant::BlockIq2S, 1> {
  static constexpr int kOffset = kIq2OffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  CHIMERE_INLINE static __m512i signs(const Block* b) {
    return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b->signs)));
  }
  CHIMERE_INLINE static void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4],
                                        __m512i v1[4]) {
    const __m512i low = in_turn(at(p0)->qs, at(p1)->qs);
    // Byte 16 j + i (and 16 j + 8 + i): qh from bit 16 j + 2 i on.
    const __m512i from = _mm512_set_epi64(
        0x3E3C3A3836343230, 0x3E3C3A3836343230, 0x2E2C2A2826242220, 0x2E2C2A2826242220,
        0x1E1C1A1816141210, 0x1E1C1A1816141210, 0x0E0C0A0806040200, 0x0E0C0A0806040200);
    const __m512i qh = _mm512_mask_set1_epi64(_mm512_set1_epi64(load<int64_t>(at(p0)->qh)), 0xAA,
                                              load<int64_t>(at(p1)->qh));
    const __m512i high = _mm512_multishift_epi64_epi8(from, qh);
    const __mmask64 bits[3] = {_mm512_movepi8_mask(low),
                               _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)),
                               _mm512_test_epi8_mask(high, _mm512_set1_epi8(2))};
    two_of_iq2<1024>(kIq2SCodes, low, bits, signs(at(p0)), signs(at(p1)), v0, v1);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return iq2_scales(at(p)); }
};

struct Iq3Xxs : Layout<DType::kIQ3_XXS, quant::BlockIq3Xxs, 1> {
  static constexpr int kOffset = 6;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  CHIMERE_INLINE static __m512i signs_and_scales(const uint8_t* p) {
    return _mm512_cvtepu32_epi64(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at(p)->scales_and_signs)));
  }
  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const __m512i index = load_bytes(at(p)->qs);
    const __mmask64 bits[1] = {_mm512_movepi8_mask(index)};
    const __m512i first = look_up<256>(kIq3XxsDigits.entry, index, bits);
    const __m512i second = look_up<256>(kIq3XxsDigits.entry + 256, index, bits);
    // 16 entries, repeated: a permutation uses four index bits and ignores the bits above.
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
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i low = load_bytes(b->qs);
    const __mmask64 bits[2] = {_mm512_movepi8_mask(low), load<uint64_t>(b->qh)};
    const __m512i first = look_up<512>(kIq3SDigits.entry, low, bits);
    const __m512i second = look_up<512>(kIq3SDigits.entry + 512, low, bits);
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
