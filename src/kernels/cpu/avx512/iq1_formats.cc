// IQ1_S and IQ1_M with VBMI: the codebook of 2048 entries is looked up by byte permutations, two
// super-blocks at a time, in 32 steps for 512 weights.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/codebooks.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// 32 low bytes of index each of two super-blocks, and above them the three lowest bits of bytes
/// `high`, in turn. The weights plus 16 are those of a positive delta less `two0` and `two1`.
CHIMERE_INLINE void two_of_iq1(const uint8_t* low0, const uint8_t* low1, __m512i high, __m512i two0,
                               __m512i two1, __m512i v0[4], __m512i v1[4]) {
  const __m512i low = in_turn(low0, low1);
  const __mmask64 bits[4] = {_mm512_movepi8_mask(low),
                             _mm512_test_epi8_mask(high, _mm512_set1_epi8(1)),
                             _mm512_test_epi8_mask(high, _mm512_set1_epi8(2)),
                             _mm512_test_epi8_mask(high, _mm512_set1_epi8(4))};
  const __m512i first = look_up<2048>(kIq1Codes.entry, low, bits);
  const __m512i second = look_up<2048>(kIq1Codes.entry + 2048, low, bits);
  expand_codes(_mm512_unpacklo_epi8(first, second), 9, 17, 25, v0);
  expand_codes(_mm512_unpackhi_epi8(first, second), 9, 17, 25, v1);
  for (int c = 0; c < 4; ++c) {
    v0[c] = _mm512_sub_epi8(v0[c], two0);
    v1[c] = _mm512_sub_epi8(v1[c], two1);
  }
}

/// 64-bit lanes 2 j and 2 j + 1 begin with dword j of the 16 bytes at a, and at b.
CHIMERE_INLINE __m512i dwords_in_turn(const void* a, const void* b) {
  const auto load_16 = [](const void* p) {
    return _mm512_castsi128_si512(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  };
  const __m512i order = _mm512_set_epi32(19, 19, 3, 3, 18, 18, 2, 2, 17, 17, 1, 1, 16, 16, 0, 0);
  return _mm512_permutex2var_epi32(load_16(a), order, load_16(b));
}

struct Iq1S : Layout<DType::kIQ1_S, quant::BlockIq1S, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  /// The eight words of qh in 64-bit lanes.
  CHIMERE_INLINE static __m512i lanes(const uint8_t* p) {
    return _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at(p)->qh)));
  }
  /// 2 in the bytes of groups with a negative delta.
  CHIMERE_INLINE static __m512i two_if_negative(const uint8_t* p) {
    const __mmask8 negative = _mm512_test_epi64_mask(lanes(p), _mm512_set1_epi64(0x8000));
    return _mm512_maskz_mov_epi64(negative, _mm512_set1_epi8(2));
  }
  CHIMERE_INLINE static void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4],
                                        __m512i v1[4]) {
    // Bits 3 i of a word, and of the next.
    const __m512i from = _mm512_set1_epi64(0x1916131009060300);
    const __m512i high = _mm512_multishift_epi64_epi8(from, dwords_in_turn(at(p0)->qh, at(p1)->qh));
    two_of_iq1(at(p0)->qs, at(p1)->qs, high, two_if_negative(p0), two_if_negative(p1), v0, v1);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const __m256i s = _mm512_cvtepi64_epi32(
        _mm512_and_si512(_mm512_srli_epi64(lanes(p), 12), _mm512_set1_epi64(7)));
    return odd_scales_of_32(at(p)->d, s, 0.125F);
  }
};

struct Iq1M : Layout<DType::kIQ1_M, quant::BlockIq1M, 1> {
  static constexpr int kOffset = kIq1OffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByFours;

  CHIMERE_INLINE static void unpack_two(const uint8_t* p0, const uint8_t* p1, __m512i v0[4],
                                        __m512i v1[4]) {
    // Nibbles: three bits of index and the sign of delta.
    const __m512i from = _mm512_set1_epi64(0x1C1814100C080400);
    const __m512i high = _mm512_multishift_epi64_epi8(from, dwords_in_turn(at(p0)->qh, at(p1)->qh));
    const __mmask64 negative = _mm512_test_epi8_mask(high, _mm512_set1_epi8(8));
    const __m512i two = _mm512_maskz_mov_epi8(negative, _mm512_set1_epi8(2));
    two_of_iq1(at(p0)->qs, at(p1)->qs, high, _mm512_unpacklo_epi8(two, two),
               _mm512_unpackhi_epi8(two, two), v0, v1);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_set1_epi64x(load<int64_t>(b->scales)));
    // Lane g: word g / 4, from bit 3 (g mod 4) on.
    const __m512i order = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i shift = _mm512_set_epi32(9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0, 9, 6, 3, 0);
    const __m512i s = _mm512_and_si512(
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(order, words), shift), _mm512_set1_epi32(7));
    return odd_scales(quant::iq1_m_scale(*b), s, 0.125F);
  }
};

}  // namespace

template <>
void product<DType::kIQ1_S>(const IntegerProduct& p) {
  integer_product<Iq1S>(p);
}
template <>
void product<DType::kIQ1_M>(const IntegerProduct& p) {
  integer_product<Iq1M>(p);
}

}  // namespace chimere::kernels::cpu::avx512
