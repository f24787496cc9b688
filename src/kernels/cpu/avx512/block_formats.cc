// The formats with blocks of 32, and IQ4_XS, which has nibbles like theirs, with AVX-512 VNNI.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/integer_product.h"
#include "kernels/cpu/avx512/kernels.h"
#include "kernels/cpu/codebook_tables.h"

namespace chimere::kernels::cpu::avx512 {
namespace {

template <class Block>
CHIMERE_INLINE __m512 scales_of_eight(const Block* b) {
  return _mm512_zextps256_ps512(_mm256_cvtph_ps(eight_d(b)));
}

/// For x = d q + m: scales d and minima -m.
template <class Block>
CHIMERE_INLINE __m512 scales_minima_of_eight(const Block* b) {
  const __m256i order = _mm256_set_epi16(15, 13, 11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512 d_m =
      _mm512_cvtph_ps(_mm256_permutexvar_epi16(order, eight_dwords(b, sizeof(Block))));
  return _mm512_mask_xor_ps(d_m, 0xFF00, d_m, _mm512_set1_ps(-0.0F));
}

/// Nibbles of eight blocks by eights.
template <class Block>
CHIMERE_INLINE void unpack_nibbles(const Block* b, __m512i v[4]) {
  constexpr int64_t kStride = sizeof(Block);
  nibbles_by_eights(four_times_16(b[0].qs, kStride), four_times_16(b[4].qs, kStride), v);
}

/// The same, mapped by a table of 16 bytes.
template <class Block>
CHIMERE_INLINE void unpack_values(const Block* b, __m512i values, __m512i v[4]) {
  unpack_nibbles(b, v);
  for (int k = 0; k < 4; ++k) v[k] = _mm512_shuffle_epi8(values, v[k]);
}

struct Q40 : Layout<DType::kQ4_0, quant::BlockQ4_0, 8> {
  static constexpr int kOffset = 3;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) { unpack_nibbles(at(p), v); }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_of_eight(at(p)); }
};

struct Q41 : Layout<DType::kQ4_1, quant::BlockQ4_1, 8> {
  static constexpr int kOffset = -1;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) { unpack_nibbles(at(p), v); }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_minima_of_eight(at(p)); }
};

/// The fifth bits of Q5_0 and Q5_1 by eights, from the qh of eight blocks, 32 bits each.
CHIMERE_INLINE void add_fifth_bits(__m256i qh, __m512i v[4]) {
  // Bytes k of four blocks to dword k of each half, then those of eight blocks side by side.
  const __m256i by_byte = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  alignas(32) uint64_t bits[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(bits),
                     _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(qh, by_byte), order));
  for (int k = 0; k < 4; ++k) {
    v[k] = _mm512_mask_add_epi8(v[k], bits[k], v[k], _mm512_set1_epi8(16));
  }
}

template <class Block>
CHIMERE_INLINE void unpack_five_bits(const Block* b, __m512i v[4]) {
  constexpr int64_t kStride = sizeof(Block);
  unpack_nibbles(b, v);
  add_fifth_bits(eight_dwords(b[0].qh, kStride), v);
}

struct Q50 : Layout<DType::kQ5_0, quant::BlockQ5_0, 8> {
  static constexpr int kOffset = 4;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) { unpack_five_bits(at(p), v); }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_of_eight(at(p)); }
};

struct Q51 : Layout<DType::kQ5_1, quant::BlockQ5_1, 8> {
  static constexpr int kOffset = -1;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) { unpack_five_bits(at(p), v); }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_minima_of_eight(at(p)); }
};

/// Signed weights become unsigned by flipping the top bit, which adds 128.
struct Q80 : Layout<DType::kQ8_0, quant::BlockQ8_0, 8> {
  static constexpr int kOffset = 7;
  static constexpr ActivationOrder kOrder = ActivationOrder::kNatural;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i top = _mm512_set1_epi8(-128);
    for (int i = 0; i < 4; ++i) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * i].qs));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b[2 * i + 1].qs));
      v[i] = _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), top);
    }
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_of_eight(at(p)); }
};

struct Mxfp4 : Layout<DType::kMXFP4, quant::BlockMxfp4, 8> {
  static constexpr int kOffset = kMxfp4OffsetBits;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    unpack_values(at(p), table_of_16(kMxfp4Bytes.entry), v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    return _mm512_zextps256_ps512(half_e8m0(eight_exponents(at(p))));
  }
};

/// The values of IQ4_NL and IQ4_XS, plus 128.
CHIMERE_INLINE __m512i iq4_values() {
  return _mm512_xor_si512(table_of_16(kIq4Values.entry), _mm512_set1_epi8(-128));
}

struct Iq4Nl : Layout<DType::kIQ4_NL, quant::BlockIq4Nl, 8> {
  static constexpr int kOffset = 7;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    unpack_values(at(p), iq4_values(), v);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) { return scales_of_eight(at(p)); }
};

struct Iq4Xs : Layout<DType::kIQ4_XS, quant::BlockIq4Xs, 1> {
  static constexpr int kOffset = 7;
  static constexpr ActivationOrder kOrder = ActivationOrder::kByEights;

  CHIMERE_INLINE static void unpack(const uint8_t* p, __m512i v[4]) {
    const Block* b = at(p);
    const __m512i values = iq4_values();
    nibbles_by_eights(load_bytes(b->qs), load_bytes(b->qs + 64), v);
    for (int k = 0; k < 4; ++k) v[k] = _mm512_shuffle_epi8(values, v[k]);
  }
  CHIMERE_INLINE static __m512 scales(const uint8_t* p) {
    const Block* b = at(p);
    const __m256i s =
        _mm256_sub_epi32(_mm256_cvtepu8_epi32(iq4_xs_scales(*b)), _mm256_set1_epi32(32));
    return _mm512_zextps256_ps512(
        _mm256_mul_ps(_mm256_set1_ps(widen_f16(b->d)), _mm256_cvtepi32_ps(s)));
  }
};

}  // namespace

template <>
void product<DType::kQ4_0>(const IntegerProduct& p) {
  integer_product<Q40>(p);
}
template <>
void product<DType::kQ4_1>(const IntegerProduct& p) {
  integer_product<Q41>(p);
}
template <>
void product<DType::kQ5_0>(const IntegerProduct& p) {
  integer_product<Q50>(p);
}
template <>
void product<DType::kQ5_1>(const IntegerProduct& p) {
  integer_product<Q51>(p);
}
template <>
void product<DType::kQ8_0>(const IntegerProduct& p) {
  integer_product<Q80>(p);
}
template <>
void product<DType::kMXFP4>(const IntegerProduct& p) {
  integer_product<Mxfp4>(p);
}
template <>
void product<DType::kIQ4_NL>(const IntegerProduct& p) {
  integer_product<Iq4Nl>(p);
}
template <>
void product<DType::kIQ4_XS>(const IntegerProduct& p) {
  integer_product<Iq4Xs>(p);
}

}  // namespace chimere::kernels::cpu::avx512
