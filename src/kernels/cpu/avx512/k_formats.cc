// The K-quants with AVX-512 VNNI.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

/// Eights k of the eight groups of 32 of Q2_K and Q3_K, two bits each: bits 2 g of bytes 8 k .. of
/// the first 32 bytes for g < 4, of the second for the others.
CHIMERE_INLINE __m512i two_bits(__m512i qs, int k) {
  const __m512i halves = _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0);
  const __m512i shift = _mm512_set_epi64(6, 4, 2, 0, 6, 4, 2, 0);
  const __m512i order = _mm512_add_epi64(halves, _mm512_set1_epi64(k));
  return _mm512_and_si512(_mm512_srlv_epi64(_mm512_permutexvar_epi64(order, qs), shift),
                          _mm512_set1_epi8(3));
}

/// Adds 2^kBit to the weights by eights whose bit is set: bit g of byte l belongs to element l of
/// group g.
template <int kBit>
CHIMERE_INLINE void add_bits(const uint8_t bytes[32], __m512i v[4]) {
  const __m512i group_bit =
      _mm512_set_epi64(static_cast<int64_t>(0x8080808080808080), 0x4040404040404040,
                       0x2020202020202020, 0x1010101010101010, 0x0808080808080808,
                       0x0404040404040404, 0x0202020202020202, 0x0101010101010101);
  for (int k = 0; k < 4; ++k) {
    const __mmask64 set = _mm512_test_epi8_mask(eight_times(bytes + 8 * k), group_bit);
    v[k] = _mm512_mask_add_epi8(v[k], set, v[k], _mm512_set1_epi8(1 << kBit));
  }
}

/// d times 16 integers of 32 bits.
CHIMERE_INLINE __m512 times_f16(uint16_t d, __m512i s) {
  return _mm512_mul_ps(_mm512_set1_ps(widen_f16(d)), _mm512_cvtepi32_ps(s));
}

struct Q2K : Layout<DType::kQ2_K, quant::BlockQ2K, 1> {
  static constexpr int kOffset = -1;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const __m512i qs = load_bytes(at(p)->qs);
    for (int k = 0; k < 4; ++k) v[k] = two_bits(qs, k);
  }
  CHIMERE_INLINE static __m512i packed(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at(p)->scales)));
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    return times_f16(at(p)->d, _mm512_and_si512(packed(p), _mm512_set1_epi32(15)));
  }
  CHIMERE_INLINE static __m512 minima(const uint8_t* p) {
    return times_f16(at(p)->dmin, _mm512_srli_epi32(packed(p), 4));
  }
};

struct Q3K : Layout<DType::kQ3_K, quant::BlockQ3K, 1> {
  static constexpr int kOffset = 2;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const __m512i qs = load_bytes(at(p)->qs);
    for (int k = 0; k < 4; ++k) v[k] = two_bits(qs, k);
    add_bits<2>(at(p)->hmask, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m512i s = _mm512_cvtepu8_epi32(q3_k_scales(b->scales));
    return times_f16(b->d, _mm512_sub_epi32(s, _mm512_set1_epi32(32)));
  }
};

/// Scales and minima of Q4_K and Q5_K.
template <class Block>
CHIMERE_INLINE __m512 k_scales(const Block* b) {
  const __m128 factors = _mm_cvtph_ps(_mm_cvtsi32_si128(load<int32_t>(b)));
  const __m512i which = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return _mm512_mul_ps(_mm512_permutexvar_ps(which, _mm512_castps128_ps512(factors)),
                       _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(k_scales_minima(b->scales))));
}

/// Nibbles of Q4_K and Q5_K by eights: groups 2 c and 2 c + 1 are low and high nibbles of bytes
/// 32 c .. 32 c + 31.
CHIMERE_INLINE void k_nibbles(const uint8_t* qs, __m512i v[4]) {
  const __m512i a = load_bytes(qs);
  const __m512i b = load_bytes(qs + 64);
  const __m512i first = _mm512_set_epi64(12, 12, 8, 8, 4, 4, 0, 0);
  const __m512i shift = _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0);
  for (int k = 0; k < 4; ++k) {
    const __m512i order = _mm512_add_epi64(first, _mm512_set1_epi64(k));
    const __m512i q = _mm512_srlv_epi64(_mm512_permutex2var_epi64(a, order, b), shift);
    v[k] = _mm512_and_si512(q, _mm512_set1_epi8(15));
  }
}

struct Q4K : Layout<DType::kQ4_K, quant::BlockQ4K, 1> {
  static constexpr int kOffset = -1;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) { k_nibbles(at(p)->qs, v); }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(at(p)); }
};

struct Q5K : Layout<DType::kQ5_K, quant::BlockQ5K, 1> {
  static constexpr int kOffset = -1;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    k_nibbles(at(p)->qs, v);
    add_bits<4>(at(p)->qh, v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return k_scales(at(p)); }
};

struct Q6K : Layout<DType::kQ6_K, quant::BlockQ6K, 1> {
  static constexpr int kOffset = 5;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    // Group g is quarter r = g mod 4 of half h = g / 4: low bits are nibble r / 2 of bytes
    // 64 h + 32 (r mod 2) .., top bits are bits 2 r of bytes 32 h ...
    const __m512i a = load_bytes(at(p)->ql);
    const __m512i b = load_bytes(at(p)->ql + 64);
    const __m512i qh = load_bytes(at(p)->qh);
    const __m512i low_first = _mm512_set_epi64(12, 8, 12, 8, 4, 0, 4, 0);
    const __m512i low_shift = _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0);
    const __m512i top_first = _mm512_set_epi64(4, 4, 4, 4, 0, 0, 0, 0);
    const __m512i top_rotation = _mm512_set_epi64(62, 0, 2, 4, 62, 0, 2, 4);
    for (int k = 0; k < 4; ++k) {
      const __m512i eights = _mm512_set1_epi64(k);
      const __m512i low = _mm512_permutex2var_epi64(a, _mm512_add_epi64(low_first, eights), b);
      const __m512i top = _mm512_permutexvar_epi64(_mm512_add_epi64(top_first, eights), qh);
      const __m512i top_bits =
          _mm512_and_si512(_mm512_rolv_epi64(top, top_rotation), _mm512_set1_epi8(0x30));
      // 0xEA: (a & b) | c.
      v[k] = _mm512_ternarylogic_epi64(_mm512_srlv_epi64(low, low_shift), _mm512_set1_epi8(15),
                                       top_bits, 0xEA);
    }
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b->scales));
    return times_f16(b->d, _mm512_cvtepi8_epi32(bytes));
  }
};

}  // namespace

template <>
void product<DType::kQ2_K>(const IntegerProduct& p) {
  integer_product<Q2K>(p);
}
template <>
void product<DType::kQ3_K>(const IntegerProduct& p) {
  integer_product<Q3K>(p);
}
template <>
void product<DType::kQ4_K>(const IntegerProduct& p) {
  integer_product<Q4K>(p);
}
template <>
void product<DType::kQ5_K>(const IntegerProduct& p) {
  integer_product<Q5K>(p);
}
template <>
void product<DType::kQ6_K>(const IntegerProduct& p) {
  integer_product<Q6K>(p);
}

}  // namespace chimere::kernels::cpu::avx512
